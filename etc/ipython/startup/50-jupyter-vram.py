# jupyter_vram: lets the Jupyter server see this kernel's GPU memory. JUPYTER_VRAM_KERNEL=0 turns
# it off. Runs in the user's namespace: so no docstring, and one name, which goes again.
# ruff: noqa: D100
def _jupyter_vram():
    import contextlib
    import os

    shell = get_ipython()  # noqa: F821 - IPython's
    if getattr(shell, "kernel", None) is None or os.environ.get("JUPYTER_VRAM_KERNEL") == "0":
        return
    # A kernel must start whatever is the matter with us: the panel says that no report comes.
    with contextlib.suppress(Exception):
        shell.extension_manager.load_extension("jupyter_vram")


_jupyter_vram()
del _jupyter_vram
