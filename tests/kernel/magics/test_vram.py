"""``%vram``: in real kernels, what it shows in every state of torch; in this process, how it
records a statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import jupyter_vram
from jupyter_vram import reports
from jupyter_vram.analysis.kernel_reasons import NO_CUDA_BUILD, NOT_IMPORTED
from support.fake_nvml import GIB, MIB, FakeNvml
from support.kernels import Kernel, Kernels
from support.shells import Shell, new_shell


def bundle(outputs: list[dict[str, Any]]) -> dict[str, str]:
    (output,) = [output for output in outputs if output["msg_type"] != "execute_input"]
    assert output["msg_type"] == "display_data", output
    data: dict[str, str] = output["content"]["data"]
    assert set(data) == {"text/plain", "text/html"}
    return data


def words(text: str) -> str:
    return " ".join(text.split())


def error_of(kernel: Kernel, code: str) -> dict[str, Any]:
    reply = kernel.wait(kernel.send(code))
    assert reply["status"] == "error"
    return reply


def test_without_torch_it_says_so_and_shows_the_process(kernel: Kernel) -> None:
    data = bundle(kernel.run("%vram"))
    assert words(data["text/plain"]).startswith(NOT_IMPORTED)
    assert "Host memory (resident memory of this process): " in data["text/plain"]
    assert "–" not in data["text/plain"]
    assert "<table" not in data["text/html"]
    assert kernel.value("'torch' in __import__('sys').modules") is False


def test_it_leaves_no_output_in_the_history(kernel: Kernel) -> None:
    kernel.run("%vram")
    assert kernel.value("list(Out)") == []


def test_a_torch_without_cuda(kernel: Kernel) -> None:
    pytest.importorskip("torch")
    kernel.run("import torch")
    if kernel.value("torch.version.cuda") is not None:
        pytest.skip("this torch is a CUDA build")
    assert words(bundle(kernel.run("%vram"))["text/plain"]).startswith(NO_CUDA_BUILD)


def test_figures_per_device(kernels: Kernels, fake_nvml: FakeNvml) -> None:
    pytest.importorskip("torch")
    kernel = kernels.start(FAKE_NVML_STATE_FOR_KERNELS=str(fake_nvml.path))
    kernel.run(
        "import os\n"
        "from support.cuda_standin import install\n"
        "gpu = install(os.environ['FAKE_NVML_STATE_FOR_KERNELS'])\n"
        f"gpu.allocate('weights', {4 * GIB})\n"
        f"gpu.allocate('batch', {2 * GIB})\n"
        "gpu.free('batch')"
    )
    data = bundle(kernel.run("%vram"))
    row = next(line for line in data["text/plain"].split("\n") if line.startswith("cuda:0"))
    assert words(row) == "cuda:0 4.00 GiB 2.00 GiB 6.00 GiB 6.00 GiB 6.00 GiB"
    assert "4.00 GiB" in data["text/html"]

    # What the server reads, and what the driver tells it, are of the same bytes.
    (device,) = kernel.until(lambda report: report.devices).devices
    assert device.device_id == fake_nvml.device(0).uuid
    assert (device.allocated_bytes, device.reserved_bytes) == (4 * GIB, 6 * GIB)
    assert fake_nvml.device(0).used_bytes == 6 * GIB + 500 * MIB
    kernel.run("gpu.empty_cache()")
    assert fake_nvml.device(0).used_bytes == 4 * GIB + 500 * MIB
    kernel.shut_down()
    assert fake_nvml.device(0).used_bytes == 0


def test_help(kernel: Kernel) -> None:
    outputs = kernel.run("%vram help")
    text = "".join(o["content"]["text"] for o in outputs if o["msg_type"] == "stream")
    assert text.startswith("%vram ")
    assert "%vram help" in text


def test_options_without_a_statement_tell_what_there_is(kernel: Kernel) -> None:
    reply = error_of(kernel, "%vram --name a")
    assert reply["ename"] == "UsageError"
    assert "needs a statement" in reply["evalue"]
    assert "%vram help" in reply["evalue"]


def test_an_unknown_option_tells_the_usage(kernel: Kernel) -> None:
    reply = error_of(kernel, "%vram --bogus x = 1")
    assert reply["ename"] == "UsageError"
    assert "no option --bogus" in reply["evalue"]
    assert "%vram [options] STATEMENT" in reply["evalue"]
    assert kernel.value("'x' in globals()") is False


def test_the_question_mark_tells_what_it_is(kernel: Kernel) -> None:
    doc = kernel.value("get_ipython().find_line_magic('vram').__doc__")
    assert doc.startswith("Show how much memory")


# --- one statement -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    pytest.importorskip("torch")
    with new_shell(tmp_path_factory.mktemp("ipython")) as shell:
        shell("import torch\ndef tensor(mib): return torch.ones(mib * 2**18)")
        jupyter_vram.load_ipython_extension(shell.ip)
        yield shell
        jupyter_vram.unload_ipython_extension(shell.ip)
    reports.forget()


def test_a_statement_is_recorded(loaded_shell: Shell) -> None:
    cell = loaded_shell("%vram --name one --as found kept = tensor(3)")
    assert cell.result.success
    assert cell.result.result is None
    assert loaded_shell["kept"].numel() * 4 == 3 * MIB
    assert cell.report.name == "one"
    assert cell.report.retained_bytes == 3 * MIB
    assert cell.report.execution_count == cell.result.execution_count
    assert [line.text for line in cell.report.source] == ["kept = tensor(3)"]
    assert cell.report.source[0].kept_bytes == 3 * MIB
    assert loaded_shell["found"] is jupyter_vram.last_report()


def test_an_expressions_value_is_the_cells(loaded_shell: Shell) -> None:
    cell = loaded_shell("%vram {'a': tensor(1).numel()}['a']; 6 * 7")
    assert cell.result.result == 42
    assert loaded_shell["_"] == 42
    cell = loaded_shell("y = %vram len('$y{z}')")
    assert loaded_shell["y"] == 5
    assert len(cell.reports) == 1


def test_what_ipython_understands_in_a_statement(loaded_shell: Shell) -> None:
    loaded_shell("%vram files = !echo hello")
    assert list(loaded_shell["files"]) == ["hello"]
    assert "Wall time" in loaded_shell("%vram %time z = 1").stdout


def test_a_statement_in_a_function(loaded_shell: Shell) -> None:
    cell = loaded_shell("def f(mib):\n    %vram tensor(mib).sum()\n    return mib\nf(3)")
    assert cell.result.result == 3
    assert cell.report.peak_bytes - cell.report.start_bytes >= 3 * MIB


def test_a_statement_that_fails(loaded_shell: Shell) -> None:
    cell = loaded_shell("%vram tensor(1) / 0 / {}")
    assert isinstance(cell.error, TypeError)
    assert cell.report.error == "TypeError"
    cell = loaded_shell("%vram x = = 1")
    assert isinstance(cell.error, SyntaxError)
    assert cell.reports == []
    cell = loaded_shell("%vram raise KeyboardInterrupt")
    assert isinstance(cell.error, KeyboardInterrupt)
    assert cell.report.error == "KeyboardInterrupt"


def test_a_statement_that_awaits(loaded_shell: Shell) -> None:
    cell = loaded_shell("import asyncio\n%vram await asyncio.sleep(0)")
    assert type(cell.error).__name__ == "UsageError"
    assert "%%vram" in str(cell.error)


def test_live_is_shown(loaded_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_vram.kernel.live.live", lambda: "the view")
    (output,) = loaded_shell("%vram live").outputs
    assert output["text/plain"] == "'the view'"


def test_completion_and_help(loaded_shell: Shell) -> None:
    _, matches = loaded_shell.ip.complete("%%vra")
    assert "%%vram" in matches
    assert "--compare" in loaded_shell.ip.object_inspect("%%vram")["docstring"]
