"""``%vram`` in real kernels: what it shows, in every state of torch."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_vram.analysis.kernel_reasons import NO_CUDA_BUILD, NOT_IMPORTED
from support.fake_nvml import GIB, MIB, FakeNvml
from support.kernels import Kernel, Kernels


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


@pytest.mark.parametrize("word", ["live", "x = 1", "--help"])
def test_another_word_is_an_error_that_says_what_there_is(word: str, kernel: Kernel) -> None:
    reply = error_of(kernel, f"%vram {word}")
    assert reply["ename"] == "UsageError"
    assert repr(word) in reply["evalue"]
    assert "%vram help" in reply["evalue"]


def test_the_question_mark_tells_what_it_is(kernel: Kernel) -> None:
    doc = kernel.value("get_ipython().find_line_magic('vram').__doc__")
    assert doc.startswith("Show how much memory")
