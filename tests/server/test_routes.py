"""The REST routes against a real server, with NVML's stand-in below."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from jupyter_vram.server.service import VramService
from support.fake_nvml import FakeNvml
from support.streams import API, until
from wire.schema import check

ROUTES = ("snapshot", "history", "stream")
MIB = 1 << 20


class NoVram(Authorizer):
    """Lets users do anything but look at memory."""

    def is_authorized(self, _handler: Any, _user: Any, action: str, resource: str) -> bool:
        return (action, resource) != ("read", "jupyter_vram")


async def snapshot_when(get: Any, wanted: Callable[[Any], bool]) -> Any:
    """The first snapshot that is as `wanted`: the one asked for at once may be of a second ago."""
    deadline = time.monotonic() + 30
    while not wanted(snapshot := await get("snapshot")):
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.05)
    return snapshot


async def test_snapshot_is_what_the_contract_says(get: Any, loaded_nvml: FakeNvml) -> None:
    device = loaded_nvml.device(0)
    device.used_bytes = 5000 * MIB
    snapshot = await snapshot_when(get, lambda s: s["devices"][0]["used_bytes"] == 5000 * MIB)
    check(snapshot, "snapshot")
    (gpu,) = snapshot["devices"]
    assert gpu["id"] == device.uuid
    assert gpu["used_bytes"] == 5000 * MIB
    assert not snapshot["stale"]


@pytest.mark.parametrize("gpu_count", [8, 16])
async def test_many_gpus(get: Any, gpu_count: int) -> None:
    snapshot = await get("snapshot")
    check(snapshot, "snapshot")
    assert [device["index"] for device in snapshot["devices"]] == list(range(gpu_count))


@pytest.mark.parametrize("vram_config", [{"interval_s": 0.1, "background_interval_s": 3600}])
async def test_who_only_asks_sees_the_present(get: Any, loaded_nvml: FakeNvml) -> None:
    for used in (1000 * MIB, 2000 * MIB, 3000 * MIB):
        loaded_nvml.device(0).used_bytes = used
        deadline = time.monotonic() + 20
        while (await get("snapshot"))["devices"][0]["used_bytes"] != used:
            assert time.monotonic() < deadline


@pytest.mark.parametrize("vram_config", [{"interval_s": 3600, "background_interval_s": 3600}])
async def test_fresh_figures_are_not_measured_again(get: Any, loaded_nvml: FakeNvml) -> None:
    first = await get("snapshot")
    calls = loaded_nvml.calls()
    for _ in range(5):
        assert (await get("snapshot"))["time"] == first["time"]
    assert loaded_nvml.calls() == calls


async def test_figures_that_made_no_sense_leave_the_last_ones_stale(
    get: Any, service: VramService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await snapshot_when(get, lambda snapshot: snapshot["devices"]))["stale"] is False

    def fail(*_: Any) -> None:
        raise ValueError("no sense")

    monkeypatch.setattr("jupyter_vram.server.service.assemble", fail)
    stale = await snapshot_when(get, lambda snapshot: snapshot["stale"])
    assert stale["devices"]


async def test_a_driver_that_hangs_is_not_waited_for(get: Any, loaded_nvml: FakeNvml) -> None:
    good = await get("snapshot")
    loaded_nvml.device(0).used_bytes = 7000 * MIB
    loaded_nvml.hang(60)
    began = time.monotonic()
    stale = good
    while not stale["stale"]:
        asked = time.monotonic()
        stale = await get("snapshot")
        assert time.monotonic() - asked < 5  # promised: 1 s; the machine may be busy
        assert asked - began < 20
    check(stale, "snapshot")
    assert stale["devices"][0]["stale"]
    assert stale["devices"][0]["used_bytes"] == good["devices"][0]["used_bytes"]
    assert "driver-hung" in [notice["code"] for notice in stale["notices"]]
    loaded_nvml.restore()
    await snapshot_when(get, lambda s: not s["stale"])


@pytest.fixture
def hung_nvml(loaded_nvml: FakeNvml) -> FakeNvml:
    loaded_nvml.hang(60)
    return loaded_nvml


# The order counts: the driver hangs before `get` starts the server.
async def test_a_driver_that_hangs_from_the_start(hung_nvml: FakeNvml, get: Any) -> None:
    snapshot = await get("snapshot")
    check(snapshot, "snapshot")
    assert snapshot["stale"]
    assert snapshot["notices"]
    hung_nvml.restore()


@pytest.mark.parametrize("gpu_count", [2])
async def test_a_lost_gpu_says_so_hides_no_other_and_comes_back(
    get: Any, loaded_nvml: FakeNvml, open_stream: Any
) -> None:
    stream = await open_stream()
    await stream.read()
    await stream.send({"type": "configure", "interval_s": 0.1})
    await stream.until(lambda m: [row[0] is not None for row in m["devices"]] == [True, True])
    loaded_nvml.lose(1)
    lost = await stream.until(lambda m: m["devices"][1][0] is None)
    assert lost["devices"][0][0] is not None
    snapshot = await get("snapshot")
    assert snapshot["devices"][1]["reasons"]["used_bytes"].endswith(".")
    loaded_nvml.restore()
    await stream.until(lambda m: m["devices"][1][0] is not None)


@pytest.mark.parametrize("gpu_count", [0])
async def test_no_gpu_shows_the_hosts_memory_and_says_why(get: Any) -> None:
    snapshot = await get("snapshot")
    check(snapshot, "snapshot")
    (device,) = snapshot["devices"]
    assert device["kind"] == "host"
    assert device["total_bytes"] > 0
    assert snapshot["notices"]


async def test_history_answers_columns(get: Any, loaded_nvml: FakeNvml) -> None:
    device = (await get("snapshot"))["devices"][0]
    past = await get("history", device=device["id"])
    check(past, "history")
    assert past["device"] == device["id"]
    assert past["columns"]["used_bytes"][-1] == device["used_bytes"]
    assert {len(column) for column in past["columns"].values()} == {len(past["time"])}


@pytest.mark.parametrize(
    ("parameters", "status", "words"),
    [
        ({}, 400, "Name a device"),
        ({"device": "GPU-none"}, 404, "GPU-none"),
        ({"device": "100%s %d \u2603"}, 404, "100%s %d"),
        ({"device": "x", "seconds": "soon"}, 400, "seconds must be a number"),
        ({"device": "x", "seconds": "nan"}, 400, "seconds must be a number"),
        ({"device": "x", "points": "%n"}, 400, "points must be a number"),
    ],
)
async def test_a_bad_question_gets_a_clear_answer(
    get: Any, parameters: dict[str, str], status: int, words: str
) -> None:
    with pytest.raises(HTTPClientError) as failure:
        await get("history", **parameters)
    assert failure.value.code == status
    assert failure.value.response is not None
    assert words in failure.value.response.body.decode("unicode_escape")


@pytest.mark.parametrize(("seconds", "points"), [("-5", "0"), ("1e300", "inf"), ("0.5", "1e9")])
async def test_history_out_of_range_is_clamped(get: Any, seconds: str, points: str) -> None:
    device_id = (await get("snapshot"))["devices"][0]["id"]
    check(await get("history", device=device_id, seconds=seconds, points=points), "history")


@pytest.mark.parametrize("route", ["snapshot", "history"])
async def test_routes_need_a_token(service: VramService, jp_fetch: Any, route: str) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch(*API, route, headers={"Authorization": ""})
    assert refused.value.code == 403


async def test_the_stream_needs_a_token(service: VramService, jp_ws_fetch: Any) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await jp_ws_fetch(*API, "stream", headers={"Authorization": ""})
    assert refused.value.code == 403
    assert len(service.hub) == 0


@pytest.fixture
def forbidding(jp_server_config: dict[str, Any]) -> None:
    jp_server_config["ServerApp"]["authorizer_class"] = NoVram


@pytest.mark.parametrize("route", ROUTES)
async def test_routes_ask_the_authorizer(
    forbidding: None, service: VramService, jp_fetch: Any, jp_ws_fetch: Any, route: str
) -> None:
    fetch = jp_ws_fetch if route == "stream" else jp_fetch
    with pytest.raises(HTTPClientError) as refused:
        await fetch(*API, route)
    assert refused.value.code == 403


async def test_looking_is_no_activity(
    get: Any, open_stream: Any, jp_serverapp: Any, service: VramService
) -> None:
    settings = jp_serverapp.web_app.settings
    before = settings.get("api_last_activity")
    stream = await open_stream()
    await stream.read()
    device_id = (await get("snapshot"))["devices"][0]["id"]
    await get("history", device=device_id)
    await until(lambda: len(service.hub) == 1)
    assert settings.get("api_last_activity") == before


async def test_answers_are_not_kept_by_caches(service: VramService, jp_fetch: Any) -> None:
    response = await jp_fetch(*API, "snapshot")
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Content-Type"].startswith("application/json")
