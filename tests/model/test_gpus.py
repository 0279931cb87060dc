"""GPUs by the names that people and drivers give them."""

from __future__ import annotations

import pytest

from jupyter_vram.errors import UnknownGpuError
from jupyter_vram.model import overheads
from jupyter_vram.model.gpus import all_gpus, common_gpus, gpu_named

MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "expected", "mib"),
    [
        ("RTX 4090", "RTX 4090", 24564),
        ("4090", "RTX 4090", 24564),
        ("NVIDIA GeForce RTX 4090", "RTX 4090", 24564),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB", 81920),
        ("NVIDIA H100 80GB HBM3", "H100 80GB", 81559),
        ("Tesla T4", "T4", 15360),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "RTX 3060 Laptop", 6144),
        ("24GB", "GPU of 24 GB", 24576),
        ("16 GiB", "GPU of 16 GB", 16384),
    ],
)
def test_names(name: str, expected: str, mib: int) -> None:
    gpu = gpu_named(name)
    assert (gpu.name, gpu.total_bytes) == (expected, mib * MIB)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a100", "A100 40GB, A100 80GB"),
        ("RTX 4091", "The nearest: RTX 4090"),
        ("", "--gpu 24GB"),
        ("GeForce", "--gpu 24GB"),
    ],
)
def test_unknown_names_are_refused_with_a_hint(name: str, words: str) -> None:
    with pytest.raises(UnknownGpuError) as error:
        gpu_named(name)
    assert words in str(error.value)


def test_every_gpu_is_found_by_its_name_and_no_other() -> None:
    assert len(all_gpus()) >= 40
    assert [gpu_named(gpu.name) for gpu in all_gpus()] == list(all_gpus())
    for gpu in all_gpus():
        assert all(gpu_named(alias) == gpu for alias in gpu.aliases), gpu
    sizes = [gpu.total_bytes for gpu in common_gpus()]
    assert sizes == sorted(sizes)
    assert len(sizes) >= 10


def test_overheads_have_bounds_and_sources() -> None:
    for one in (overheads.context(), overheads.cudnn(), overheads.workspace((8, 9))):
        assert one.low_bytes <= one.bytes <= one.high_bytes
        assert len(one.source) > 20
    assert overheads.workspace((9, 0)).bytes == 32 * MIB
    assert overheads.workspace((8, 6)).bytes == 8_519_680
