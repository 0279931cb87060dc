"""The machine is named in a way that a file can be named after."""

from __future__ import annotations

import re

from benchmarks.hardware import describe, slug


def test_this_machine_is_described() -> None:
    machine = describe()
    assert machine["cores"] >= 1
    assert machine["ram_bytes"] > 1 << 28
    assert machine["cpu"]
    assert machine["packages"]["jupyter_vram"]
    assert re.fullmatch(r"[a-z0-9.]+(-[a-z0-9.]+)*", slug(machine))


def test_slug() -> None:
    machine = {
        "cpu": "Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz",
        "cores": 14,
        "ram_bytes": 64 << 30,
        "gpus": [],
    }
    assert slug(machine) == "intel-xeon-e5-2690-v4-2.60ghz-14-cores-64-gib"
    machine["gpus"] = ["NVIDIA H200", "NVIDIA H200"]
    assert slug(machine) == "nvidia-h200-14-cores-64-gib"
