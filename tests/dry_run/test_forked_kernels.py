"""A real kernel, with its threads and sockets, forks and goes on as before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.kernels import Kernel, Kernels, until

SETUP = """
import logging, pickle, sys
from jupyter_vram.dry_run.forked import printed, run_forked
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.sandbox import enter_sandbox
from jupyter_vram.errors import DryRunError
logging.getLogger("u").addHandler(logging.StreamHandler(sys.stderr))
old = sys.stdout
def forked(job):
    def run():
        enter_sandbox()
        return job()
    return run_forked(run, Limits(timeout_s=30, memory_bytes=1 << 30))
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("kernel")
    for name in ("runtime", "ipython"):
        (folder / name).mkdir(mode=0o700)
    env = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_VRAM_KERNEL": "0"}
    kernels = Kernels(folder, env)
    kernel = kernels.start()
    kernel.run(SETUP)
    yield kernel
    kernels.stop()
    shutil.rmtree(folder)


def texts(kernel: Kernel, code: str) -> list[str]:
    """What a cell puts out."""
    return [
        str(output["content"].get("text", output["content"].get("data")))
        for output in kernel.run(code)
        if output["msg_type"] != "execute_input"
    ]


def test_nothing_is_left_of_many(kernel: Kernel) -> None:
    process = psutil.Process(kernel.pid)
    kernel.run("forked(lambda: b'')")
    before = process.num_fds(), process.num_threads()
    assert texts(kernel, "for i in range(20): forked(lambda: b'')\nprint('here')") == ["here\n"]
    assert (process.num_fds(), process.num_threads()) == before
    assert process.children() == []
    assert kernel.value("1 + 1") == 2


def test_only_the_kernel_speaks_to_the_notebook(kernel: Kernel) -> None:
    code = """
print("before")
def job():
    print("old stream", file=old, flush=True)
    print("new stream")
    display("shown")
    logging.getLogger("u").warning("logged")
    !echo shell
    return printed().encode()
told = forked(job).decode()
"""
    assert texts(kernel, code) == ["before\n"]
    assert texts(kernel, "print('after')") == ["after\n"]
    assert kernel.value("told.splitlines()[0]") == "old stream"
    for words in ("new stream", "logged"):
        assert kernel.value(f"{words!r} in told")


def test_cells_open_is_redirected_too(kernel: Kernel, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("a\n")
    code = f"""
def job():
    with open({str(log)!r}, "a") as file:
        file.write("b\\n")
    return b"done"
told = forked(job).decode()
"""
    assert texts(kernel, code) == []
    assert kernel.value("told") == "done"
    assert log.read_text() == "a\n"


@pytest.mark.parametrize("ask", ["input('?')", "__import__('getpass').getpass()"])
def test_nobody_is_asked(kernel: Kernel, ask: str) -> None:
    code = f"""
try:
    forked(lambda: {ask})
except DryRunError as error:
    told = str(error)
"""
    reply = kernel.wait(kernel.client.execute(code, allow_stdin=True))
    assert reply["status"] == "ok"
    assert kernel.value("'nobody answers in a dry run' in told")


def test_interrupt_reaches_the_kernel_only(kernel: Kernel) -> None:
    code = "import time\nforked(lambda: (print('x'), time.sleep(60)))"
    request = kernel.send(code)
    process = psutil.Process(kernel.pid)
    until(process.children, "the child")
    kernel.manager.interrupt_kernel()
    reply = kernel.wait(request)
    assert reply["ename"] == "KeyboardInterrupt"
    assert process.children() == []
