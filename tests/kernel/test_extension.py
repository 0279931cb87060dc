"""Loading and unloading in real kernels: what comes, what goes, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_vram import __version__
from jupyter_vram.kernel.reporter import THREAD_NAME
from support.kernels import Kernel, Kernels, until

# What loading could leave behind, as JSON; asked for silently.
TRACES = (
    "(lambda ip: dict("
    "names=sorted(set(ip.user_ns)),"
    "doc=ip.user_ns.get('__doc__'),"
    "callbacks={k: [repr(f.__qualname__) for f in v] for k, v in ip.events.callbacks.items()},"
    "magics={k: sorted(v) for k, v in ip.magics_manager.magics.items()},"
    "registry=sorted(map(str, ip.magics_manager.registry)),"
    "user_magics=sorted(vars(ip.magics_manager.user_magics)),"
    "threads=sorted(t.name for t in __import__('threading').enumerate()),"
    "ours=[type(o).__name__ for o in (__import__('gc').collect(), *__import__('gc').get_objects())"
    " if type(o).__name__ in ('Reporter', 'CellLog')],"
    "count=ip.execution_count,"
    "inputs=ip.history_manager.input_hist_raw,"
    "outputs=sorted(ip.user_ns['_oh']),"
    "extensions=sorted(ip.extension_manager.loaded)"
    "))(get_ipython())"
)


def running_threads(kernel: Kernel) -> list[str]:
    names: list[str] = kernel.value("[t.name for t in __import__('threading').enumerate()]")
    return names


def test_a_report_is_there_before_the_first_cell(kernel: Kernel) -> None:
    report = kernel.first_report()
    assert report.pid == kernel.pid
    assert report.package_version == __version__
    assert report.torch_state == "not_imported"
    assert report.cells == ()
    assert report.problem is None
    assert (report.rss_bytes or 0) > 2**20
    assert kernel.value("get_ipython().execution_count") == 1


def test_the_startup_file_leaves_no_trace_but_its_own(kernels: Kernels) -> None:
    without = kernels.start(JUPYTER_VRAM_KERNEL="0").value(TRACES)
    loaded = kernels.start().value(TRACES)
    for same in ("names", "doc", "count", "inputs", "outputs", "registry", "user_magics"):
        assert loaded[same] == without[same]
    assert set(loaded["threads"]) - set(without["threads"]) == {THREAD_NAME}
    assert set(loaded["magics"]["line"]) - set(without["magics"]["line"]) == {
        *("vram", "vram_estimate")
    }
    assert loaded["extensions"] == sorted([*without["extensions"], "jupyter_vram"])


def test_a_starting_kernel_loads_what_it_needs(kernel: Kernel) -> None:
    kernel.first_report()
    loaded = set(kernel.value("[m for m in __import__('sys').modules]"))
    assert "jupyter_vram.kernel.reporter" in loaded
    for needless in ("server", "recorders", "analysis", "render", "model.snapshot", "sources.nvml"):
        assert f"jupyter_vram.{needless}" not in loaded
    assert not {"torch", "numpy", "pynvml", "jupyter_server"} & loaded


def test_unloading_restores_everything(kernels: Kernels) -> None:
    kernel = kernels.start(JUPYTER_VRAM_KERNEL="0")
    load = "get_ipython().extension_manager.load_extension('jupyter_vram')"
    unload = "get_ipython().extension_manager.unload_extension('jupyter_vram')"
    # Once for what an import leaves for good (the standard library's own hooks).
    kernel.run(f"{load}; {unload}", silent=True)
    before = kernel.value(TRACES)
    kernel.run(load, silent=True)
    kernel.first_report()
    assert sorted(kernel.value(TRACES)["ours"]) == ["CellLog", "Reporter"]
    kernel.run(unload, silent=True)
    # Without an object of ours in "ours", there is no exit handler of ours either.
    assert kernel.value(TRACES) == before
    assert before["ours"] == []
    assert kernel.report() is None
    assert list(kernel.path.parent.iterdir()) == []


def test_loading_again_changes_nothing(kernel: Kernel) -> None:
    before = kernel.value(TRACES)
    kernel.run("from jupyter_vram import load_ipython_extension as l; l(get_ipython())")
    kernel.run("%load_ext jupyter_vram")
    after = kernel.value(TRACES)
    for same in ("callbacks", "magics", "threads", "ours"):
        assert after[same] == before[same]


def test_loading_by_hand_and_unloading_by_hand(kernels: Kernels) -> None:
    kernel = kernels.start(JUPYTER_VRAM_KERNEL="0")
    assert kernel.report() is None
    kernel.run("%load_ext jupyter_vram")
    kernel.first_report()
    kernel.run("%reload_ext jupyter_vram")
    kernel.first_report()
    assert running_threads(kernel).count(THREAD_NAME) == 1
    kernel.run("%unload_ext jupyter_vram")
    assert kernel.report() is None
    assert THREAD_NAME not in running_threads(kernel)


def test_one_variable_turns_it_off(kernels: Kernels) -> None:
    kernel = kernels.start(JUPYTER_VRAM_KERNEL="0")
    kernel.run("1 + 1")
    assert not kernel.path.parent.exists()
    assert kernel.value("'jupyter_vram' in __import__('sys').modules") is False


@pytest.mark.parametrize(
    "broken", ["raise ImportError('no such package')", "raise RuntimeError('broken')", "1 +"]
)
def test_a_kernel_starts_whatever_is_the_matter_with_the_package(
    broken: str, kernels: Kernels, tmp_path: Path
) -> None:
    shadow = tmp_path / "shadow" / "jupyter_vram"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text(broken)
    kernel = kernels.start(PYTHONPATH=str(shadow.parent))
    (output,) = [m for m in kernel.run("6 * 7") if m["msg_type"] != "execute_input"]
    assert output["content"]["data"]["text/plain"] == "42"
    assert not kernel.path.parent.exists()
    assert kernel.value("'_jupyter_vram' in globals()") is False


def test_the_users_own_vram_magic_comes_back(kernels: Kernels) -> None:
    kernel = kernels.start(JUPYTER_VRAM_KERNEL="0")
    kernel.run("get_ipython().register_magic_function(lambda line: 'mine', 'line', 'vram')")
    kernel.run("%load_ext jupyter_vram")
    kernel.run("%unload_ext jupyter_vram")
    assert kernel.value("get_ipython().run_line_magic('vram', '')") == "mine"


def test_a_restarted_kernel_reports_anew(kernel: Kernel) -> None:
    kernel.run("1")
    first = kernel.until(lambda report: report.cells)
    kernel.restart()
    second = kernel.until(lambda report: report.pid == kernel.pid)
    assert second.pid != first.pid
    assert second.cells == ()


def test_a_killed_kernels_successor_reports(kernel: Kernel) -> None:
    first = kernel.first_report()
    os.kill(first.pid, signal.SIGKILL)
    kernel.restart(now=True)
    second = kernel.until(lambda report: report.pid != first.pid)
    assert second.pid == kernel.pid


def test_what_killed_kernels_left_is_removed_by_the_next(kernels: Kernels, tmp_path: Path) -> None:
    folder = tmp_path / "runtime" / "jupyter-vram"
    folder.mkdir(mode=0o700)
    (tmp_path / "runtime" / "kernel-alive.json").write_text("{}")
    for name in ("kernel-alive.json", "kernel-killed.json", ".kernel-killed.json.1.tmp"):
        (folder / name).write_text("{}")
    kernel = kernels.start()
    kernel.first_report()
    assert {path.name for path in folder.iterdir()} == {"kernel-alive.json", kernel.path.name}


@pytest.mark.parametrize("end", ["shutdown", "exit"])
def test_a_kernel_that_ends_removes_its_report(end: str, kernel: Kernel) -> None:
    kernel.first_report()
    if end == "exit":
        kernel.send("exit()")
        until(lambda: not kernel.manager.is_alive(), "the kernel's end")
    kernel.shut_down()
    assert list(kernel.path.parent.iterdir()) == []


def test_in_a_terminal_there_are_only_the_magics(tmp_path: Path) -> None:
    code = (
        "%load_ext jupyter_vram\n"
        "import threading\n"
        "print([t.name for t in threading.enumerate()])\n"
        "%vram\n"
        "%unload_ext jupyter_vram\n"
        "%vram\n"
    )
    (tmp_path / "session.ipy").write_text(code)
    result = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "session.ipy"],
        **in_folder(tmp_path),
    )
    assert "['MainThread'" in result.stdout
    assert THREAD_NAME not in result.stdout
    assert "Host memory" in result.stdout
    assert "`%vram` not found" in result.stdout + result.stderr
    assert list(tmp_path.rglob("jupyter-vram")) == []


def test_the_startup_file_does_nothing_in_a_terminal(kernels: Kernels, tmp_path: Path) -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "IPython",
            "--no-banner",
            "-c",
            "import sys; print('jupyter_vram' in sys.modules)",
        ],
        **in_folder(tmp_path),
    )
    assert "False" in result.stdout


def in_folder(folder: Path) -> dict[str, Any]:
    env = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder)}
    return {"cwd": folder, "env": env, "capture_output": True, "text": True, "timeout": 120}


def test_a_relative_connection_file_and_a_user_who_moves(kernels: Kernels, tmp_path: Path) -> None:
    kernel = kernels.start()
    kernel.run("%unload_ext jupyter_vram")
    kernel.run(
        "import os\nfrom ipykernel.kernelapp import IPKernelApp\n"
        "app = IPKernelApp.instance()\n"
        "app.connection_file = os.path.relpath(app.connection_file)"
    )
    kernel.run("%load_ext jupyter_vram")
    first = kernel.first_report()
    (tmp_path / "elsewhere").mkdir()
    kernel.run("os.chdir('elsewhere')")
    kernel.until(lambda report: report.written_at > first.written_at)
    kernel.run("os.chdir('..')\napp.connection_file = os.path.abspath(app.connection_file)")
