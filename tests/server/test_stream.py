"""The stream against a real server: past, present, rates, and clients that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from typing import Any
from unittest.mock import Mock

import pytest
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClosedError

from jupyter_vram.model.notice import Notice
from jupyter_vram.model.snapshot import Snapshot
from jupyter_vram.model.wire import TickBuilder
from jupyter_vram.server.service import VramService
from support.fake_nvml import FakeNvml
from support.streams import API, until
from wire.schema import check

MIB = 1 << 20
FAST = {"type": "configure", "interval_s": 0.1}


class Eager:
    """A wish for every tick there is."""

    interval_s = 0.0

    def close(self) -> None:
        pass


HOSTILE = [
    "",
    "nonsense",
    "{",
    "[]",
    "null",
    "1e999",
    '"configure"',
    "{}",
    '{"type": "configure"}',
    '{"type": "configure", "interval_s": null}',
    '{"type": "configure", "interval_s": "1"}',
    '{"type": "configure", "interval_s": true}',
    '{"type": "configure", "interval_s": 0}',
    '{"type": "configure", "interval_s": -1}',
    '{"type": "configure", "interval_s": NaN}',
    '{"type": "configure", "interval_s": Infinity}',
    '{"type": "configure", "interval_s": {"a": 1}}',
    '{"type": "shutdown"}',
    "[" * 2000,
    '{"type": "configure", "interval_s": 1' + "0" * 5000 + "}",
    "\u0000\ud7ff\U0001f4a3",
    "x" * 60_000,
    b"\x00\xff" * 100,
    b"",
]


async def test_the_past_comes_first_then_the_present(
    open_stream: Any, loaded_nvml: FakeNvml
) -> None:
    stream = await open_stream()
    first = await stream.read()
    check(first, "stream_snapshot")
    uuid = loaded_nvml.device(0).uuid
    assert list(first["history"]) == [uuid]
    loaded_nvml.device(0).used_bytes = 9000 * MIB
    tick = await stream.until(lambda m: m["devices"][0][0] == 9000 * MIB)
    check(tick, "tick")
    assert len(tick["devices"]) == len(first["devices"])


async def test_a_second_tab_sees_the_past_at_once(open_stream: Any) -> None:
    first = await open_stream()
    await first.read()
    await first.send(FAST)
    times = [(await first.read())["time"] for _ in range(5)]
    second = await (await open_stream(seconds=600, points=300)).read()
    (past,) = second["history"].values()
    assert set(times) <= set(past["time"])


async def test_a_change_comes_once_to_each_client(open_stream: Any, loaded_nvml: FakeNvml) -> None:
    streams = [await open_stream() for _ in range(2)]
    for stream in streams:
        await stream.read()
        await stream.send(FAST)
    loaded_nvml.lose(0)
    for stream in streams:
        change = await stream.until(lambda m: "devices" in m.get("changed", {}))
        check(change, "tick")
        assert change["changed"]["devices"][0]["reasons"]["used_bytes"]
        for _ in range(3):
            assert "devices" not in (await stream.read()).get("changed", {})


async def test_rates_are_clamped_and_each_client_has_its_own(
    open_stream: Any, service: VramService
) -> None:
    fast, slow = await open_stream(), await open_stream()
    await fast.read()
    await slow.read()
    await until(lambda: len(service.hub) == 2)
    await fast.send({"type": "configure", "interval_s": 1e-9})
    await slow.send({"type": "configure", "interval_s": 3000})
    await until(lambda: service.poller.interval_s == 0.1)
    times = [(await fast.read())["time"] for _ in range(20)]
    assert len(set(times)) == len(times)
    # Until it was configured, the slow one was sent some; far fewer than the fast one since.
    await slow.send("nonsense")
    sent_to_slow = 0
    while (await slow.read())["type"] == "tick":
        sent_to_slow += 1
    assert sent_to_slow < 10


@pytest.mark.usefixtures("http_server_client")
async def test_a_wish_sent_along_with_the_handshake_counts(
    service: VramService, jp_http_port: int, jp_base_url: str, jp_auth_header: dict[str, str]
) -> None:
    wish = b'{"type": "configure", "interval_s": 0.5}'
    lines = [
        f"GET {jp_base_url}jupyter-vram/api/v1/stream HTTP/1.1",
        f"Host: 127.0.0.1:{jp_http_port}",
        f"Authorization: {jp_auth_header['Authorization']}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    handshake = "\r\n".join([*lines, "", ""]).encode()
    # A text, masked with zeros.
    frame = bytes([0x81, 0x80 | len(wish), 0, 0, 0, 0]) + wish
    _, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    writer.write(handshake + frame)
    try:
        await until(lambda: service.poller.interval_s == 0.5)
    finally:
        writer.close()
    await until(lambda: service.poller.interval_s == 10.0)


async def test_who_leaves_wishes_for_nothing_any_more(
    open_stream: Any, service: VramService
) -> None:
    stream = await open_stream()
    await stream.read()
    assert service.poller.interval_s == 1.0
    stream.close()
    await until(lambda: service.poller.interval_s == 10.0)
    assert len(service.hub) == 0


async def test_who_leaves_during_the_greeting_wishes_for_nothing(
    open_stream: Any, service: VramService, loaded_nvml: FakeNvml
) -> None:
    for _ in range(5):
        (await open_stream()).close()
    await until(lambda: not service.poller._watches)
    assert len(service.hub) == 0


@pytest.mark.parametrize("message", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_messages_are_answered_and_break_nothing(
    open_stream: Any, message: str | bytes
) -> None:
    stream = await open_stream()
    await stream.read()
    await stream.send(message)
    error = await stream.until(lambda m: m["type"] == "error")
    check(error, "error")
    await stream.send(FAST)
    check(await stream.until(lambda m: m["type"] == "tick"), "tick")


async def test_a_flood_of_noise_harms_no_other_client(
    open_stream: Any, service: VramService
) -> None:
    noise = random.Random(7)
    other, bad = await open_stream(), await open_stream()
    await other.read()
    await bad.read()
    for _ in range(500):
        data = noise.randbytes(noise.randrange(300))
        await bad.send(data if noise.random() < 0.5 else data.decode("latin-1"))
    await bad.send(FAST)
    await until(lambda: service.poller.interval_s == 0.1)
    errors = ticks = 0
    while ticks < 5:
        is_error = (await bad.read())["type"] == "error"
        errors, ticks = errors + is_error, ticks + (not is_error)
    assert 1 <= errors < 50
    assert (await other.read())["type"] == "tick"


async def test_a_message_too_large_ends_only_that_stream(
    open_stream: Any, service: VramService
) -> None:
    other, bad = await open_stream(), await open_stream()
    await other.read()
    await bad.read()
    with contextlib.suppress(WebSocketClosedError):  # the server need not read it to its end
        await bad.send("x" * 5_000_000)
    await until(lambda: len(service.hub) == 1)
    assert (await other.read())["type"] == "tick"


@pytest.mark.parametrize("parameters", [{"seconds": "x"}, {"points": "%d"}])
async def test_a_bad_question_is_refused_before_the_upgrade(
    jp_ws_fetch: Any, service: VramService, parameters: dict[str, str]
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await jp_ws_fetch(*API, "stream", params=parameters)
    assert refused.value.code == 400


async def test_a_driver_that_hangs_is_told_on_the_stream(
    open_stream: Any, loaded_nvml: FakeNvml
) -> None:
    stream = await open_stream()
    await stream.read()
    await stream.send(FAST)
    loaded_nvml.hang(60)
    stale = await stream.until(lambda m: m.get("changed", {}).get("stale"))
    check(stale, "tick")
    assert stale["changed"]["devices"][0]["stale"]
    codes = [notice["code"] for notice in stale["changed"]["notices"]]
    assert "driver-hung" in codes
    assert (await stream.read())["type"] == "tick"
    loaded_nvml.restore()
    await stream.until(lambda m: m.get("changed", {}).get("stale") is False, count=1000)


async def test_figures_that_made_no_sense_are_told_on_the_stream(
    open_stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await open_stream()
    await stream.read()
    await stream.send(FAST)
    with monkeypatch.context() as broken:
        broken.setattr("jupyter_vram.server.service.assemble", Mock(side_effect=ValueError("odd")))
        told = await stream.until(lambda m: "notices" in m.get("changed", {}))
        check(told, "tick")
        assert told["changed"]["stale"] is True
        (notice,) = told["changed"]["notices"]
        assert (notice["code"], notice["severity"]) == ("measuring-failed", "error")
        assert "ValueError: odd" in notice["message"]
        assert told["devices"]
        await stream.until(lambda m: m["time"] > told["time"])
    healed = await stream.until(lambda m: "notices" in m.get("changed", {}))
    assert healed["changed"]["stale"] is False
    assert "measuring-failed" not in {n["code"] for n in healed["changed"]["notices"]}


async def test_a_greeting_that_fails_ends_the_stream(
    open_stream: Any,
    service: VramService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(service.history, "histories", Mock(side_effect=ValueError("odd")))
    stream = await open_stream()
    assert await asyncio.wait_for(stream.socket.read_message(), 20) is None
    assert stream.socket.close_code == 1011
    assert "could not be begun" in caplog.text
    await until(lambda: not service.poller._watches)
    assert len(service.hub) == 0


@pytest.mark.parametrize("gpu_count", [8])
async def test_nvml_is_not_called_more_for_more_clients(
    open_stream: Any, loaded_nvml: FakeNvml, service: VramService
) -> None:
    async def calls_per_turn(clients: int) -> float:
        for _ in range(clients):
            stream = await open_stream()
            await stream.read()
            await stream.send(FAST)
        await until(lambda: service.poller.interval_s == 0.1)
        turns = 0

        def count(_: object) -> None:
            nonlocal turns
            turns += 1

        unsubscribe = service.poller.subscribe(count)
        await until(lambda: turns)
        first, before = turns, loaded_nvml.calls("nvmlDeviceGetMemoryInfo_v2")
        await until(lambda: turns >= first + 10)
        last, after = turns, loaded_nvml.calls("nvmlDeviceGetMemoryInfo_v2")
        unsubscribe()
        return (after - before) / (last - first)

    one = await calls_per_turn(1)
    many = await calls_per_turn(20)
    assert one == pytest.approx(8, abs=1)
    assert many == pytest.approx(one, abs=1)


async def test_a_client_that_does_not_read_costs_no_memory_and_gets_the_latest(
    open_stream: Any, service: VramService
) -> None:
    stream = await open_stream()
    await stream.read()
    await until(lambda: len(service.hub) == 1)
    await stream.send({"type": "configure", "interval_s": 0.1})
    await service.stop()  # from here on, the test makes the ticks: as fast as it can
    (client,) = service.hub._clients
    client._watch = Eager()
    sent: list[int] = []
    send = client._send

    def counted(text: str) -> asyncio.Future[None]:
        sent.append(len(text))
        return send(text)

    client._send = counted
    builder = TickBuilder()
    for second in range(1000):
        notice = Notice("big", "info", f"{second} " + "x" * 200_000)
        big = Snapshot(time=float(second), interval_s=0.1, notices=(notice,))
        service.hub.publish(builder.build(big))
        await asyncio.sleep(0)
    # What fits into the buffers of the sockets, of 200 MB that were offered.
    assert sum(sent) < 50_000_000
    latest = await stream.until(lambda m: m["time"] == 999.0)
    assert latest["changed"]["notices"][0]["message"].startswith("999 ")


async def test_the_stream_goes_on_through_json_that_other_parsers_take(
    open_stream: Any, loaded_nvml: FakeNvml
) -> None:
    loaded_nvml.device(0).name = b"GPU \xff\xfe \xe2\x98\x83"
    stream = await open_stream()
    text = await stream.socket.read_message()
    assert json.loads(text, parse_constant=pytest.fail)["devices"][0]["name"]
