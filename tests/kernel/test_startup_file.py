"""The startup file where the wheel puts it: below ``sys.prefix``, for every profile."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

from support.kernels import Kernel, Kernels

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "etc/ipython/startup"


def start_below(prefix: Path, kernels: Kernels, *arguments: str) -> Kernel:
    """A kernel of an environment in the folder `prefix`, with the packages of this one."""
    launch = (
        f"import sys; sys.prefix = {str(prefix)!r};"
        "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
    )
    manager = KernelManager(
        kernel_name="python3", connection_file=str(kernels.folder / "runtime/kernel-1.json")
    )
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv = [sys.executable, "-c", launch, "-f", "{connection_file}", *arguments]
    manager.start_kernel(env=kernels.env, cwd=str(kernels.folder))
    kernel = Kernel(manager)
    kernels.started.append(kernel)
    return kernel


@pytest.mark.parametrize("arguments", [(), ("--profile=another",)])
def test_ipython_runs_it_from_the_environment(
    arguments: tuple[str, ...], bare_kernels: Kernels, tmp_path: Path
) -> None:
    (tmp_path / "ipython/profile_another").mkdir()
    shutil.copytree(ROOT / FOLDER, tmp_path / "prefix" / FOLDER)
    kernel = start_below(tmp_path / "prefix", bare_kernels, *arguments)
    assert kernel.first_report().pid == kernel.pid


def test_without_it_there_is_no_report(bare_kernels: Kernels, tmp_path: Path) -> None:
    """What the test above shows is the file's doing."""
    kernel = start_below(tmp_path / "prefix", bare_kernels)
    kernel.run("1")
    assert not kernel.path.parent.exists()
    assert kernel.value("'jupyter_vram' in __import__('sys').modules") is False
