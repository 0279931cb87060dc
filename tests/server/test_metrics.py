"""The gauges at ``/metrics``."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from jupyter_vram.model.snapshot import Snapshot
from jupyter_vram.server.metrics import COLLECTOR, VramCollector
from wire.examples import GPU_0, GPU_1, TRAIN, snapshot

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_devices_and_kernels_by_id_and_nothing_by_path(registry: CollectorRegistry) -> None:
    VramCollector().add(snapshot, registry)
    text = generate_latest(registry).decode()
    found = samples(text)
    sample = snapshot().devices[0].sample
    assert found["jupyter_vram_device_used_bytes", (("device", GPU_0),)] == sample.used_bytes
    key = (("device", GPU_0), ("kernel_id", TRAIN), ("part", "allocated"))
    assert found["jupyter_vram_kernel_bytes", key] == 8192 * (1 << 20)
    assert "ipynb" not in text


def test_the_unknown_has_no_sample(registry: CollectorRegistry) -> None:
    VramCollector().add(snapshot, registry)
    found = samples(generate_latest(registry).decode())
    assert ("jupyter_vram_device_driver_reserved_bytes", (("device", GPU_0),)) in found
    assert ("jupyter_vram_device_driver_reserved_bytes", (("device", GPU_1),)) not in found


def test_two_servers_in_one_process_and_before_the_first_measurement(
    registry: CollectorRegistry,
) -> None:
    collector = VramCollector()

    def nothing() -> Snapshot | None:
        return None

    collector.add(snapshot, registry)
    collector.add(snapshot, registry)
    collector.add(nothing, registry)
    text = generate_latest(registry).decode()
    assert text.count("# TYPE jupyter_vram_device_used_bytes gauge") == 1
    collector.remove(snapshot, registry)
    collector.remove(snapshot, registry)
    assert not samples(generate_latest(registry).decode())
    collector.remove(nothing, registry)
    assert not generate_latest(registry)


async def test_jupyters_own_route_shows_them(get: Any, jp_fetch: Any) -> None:
    snapshot_now = await get("snapshot")
    response = await jp_fetch("metrics")
    found = samples(response.body.decode())
    device = snapshot_now["devices"][0]
    key = ("jupyter_vram_device_total_bytes", (("device", device["id"]),))
    assert found[key] == device["total_bytes"]


async def test_stopping_takes_them_back(get: Any, jp_serverapp: Any, jp_fetch: Any) -> None:
    await get("snapshot")
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyter_vram"]
    await app.stop_extension()
    await app.stop_extension()
    assert "jupyter_vram_device" not in (await jp_fetch("metrics")).body.decode()
    assert not COLLECTOR._reads


@pytest.mark.parametrize("vram_config", [{"prometheus": False}])
async def test_they_can_be_turned_off(get: Any, jp_fetch: Any) -> None:
    await get("snapshot")
    assert "jupyter_vram_device" not in (await jp_fetch("metrics")).body.decode()
