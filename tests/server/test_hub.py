"""The hub by itself: latest value only, one encoding for all, each client at its rate."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import pytest
from tornado.websocket import WebSocketClosedError

from jupyter_vram.model.device import Device, DeviceSample
from jupyter_vram.model.snapshot import DeviceView, KernelDevice, KernelView, Snapshot
from jupyter_vram.model.wire import Tick, TickBuilder
from jupyter_vram.server.hub import Client, Hub, encode
from wire.examples import later, snapshot

GIB = 1 << 30


class Wish:
    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Socket:
    """A client's end: `slow` ones take nothing until `read`."""

    def __init__(self, slow: bool = False) -> None:
        self.slow = slow
        self.got: list[dict[str, Any]] = []
        self.pending: list[asyncio.Future[None]] = []

    def send(self, text: str) -> asyncio.Future[None]:
        self.got.append(json.loads(text))
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.slow:
            self.pending.append(taken)
        else:
            taken.set_result(None)
        return taken


class Gone(Socket):
    def send(self, text: str) -> asyncio.Future[None]:
        raise WebSocketClosedError(text)


class Bench:
    def __init__(self) -> None:
        self.hub = Hub()
        self.builder = TickBuilder()
        self.first = self.tick(0)

    def tick(self, second: float, figures_only: bool = True) -> Tick:
        moved = later(figures_only=figures_only)
        return self.builder.build(
            dataclasses.replace(moved, time=snapshot().time + second, interval_s=0.1)
        )

    def join(self, socket: Socket, interval_s: float = 0.0) -> tuple[Client, Wish]:
        wish = Wish(interval_s)
        return self.hub.join(socket.send, wish, self.first), wish

    async def publish(self, tick: Tick) -> None:
        self.hub.publish(tick)
        for _ in range(3):
            await asyncio.sleep(0)  # a future's callbacks come with the loop's next turn


async def test_a_slow_client_gets_the_latest_and_no_queue() -> None:
    bench, socket = Bench(), Socket(slow=True)
    bench.join(socket)
    for second in range(1, 100):
        await bench.publish(bench.tick(second))
    assert [m["time"] - snapshot().time for m in socket.got] == [1]
    socket.pending.pop().set_result(None)
    await asyncio.sleep(0)
    assert [m["time"] - snapshot().time for m in socket.got] == [1, 99]


async def test_a_slow_client_misses_no_change() -> None:
    bench, socket = Bench(), Socket(slow=True)
    bench.join(socket)
    await bench.publish(bench.tick(1))
    await bench.publish(bench.tick(2, figures_only=False))
    await bench.publish(bench.tick(3, figures_only=False))
    socket.pending.pop().set_result(None)
    await asyncio.sleep(0)
    assert [list(m.get("changed", {})) for m in socket.got] == [[], ["kernels"]]


async def test_each_has_its_own_rate() -> None:
    bench = Bench()
    fast, slow = Socket(), Socket()
    bench.join(fast, 0.0)
    bench.join(slow, 3600.0)
    for second in range(1, 6):
        await bench.publish(bench.tick(second))
    assert (len(fast.got), len(slow.got)) == (5, 0)


async def test_clients_that_saw_the_same_share_one_encoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    sockets = [Socket() for _ in range(50)]
    for socket in sockets:
        bench.join(socket)
    encoded = 0
    original = Tick.message

    def counted(self: Tick, seen: Any) -> Any:
        nonlocal encoded
        encoded += 1
        return original(self, seen)

    monkeypatch.setattr(Tick, "message", counted)
    await bench.publish(bench.tick(1))
    await bench.publish(bench.tick(2, figures_only=False))
    assert encoded == 2
    assert all(len(socket.got) == 2 for socket in sockets)
    assert all("changed" in socket.got[1] for socket in sockets)


async def test_one_that_has_gone_is_dropped_and_the_others_served() -> None:
    bench = Bench()
    _, wish = bench.join(Gone())
    broken = Socket(slow=True)
    _, second_wish = bench.join(broken)
    well = Socket()
    bench.join(well)
    await bench.publish(bench.tick(1))
    broken.pending.pop().set_exception(WebSocketClosedError())
    await asyncio.sleep(0)
    assert wish.closed
    assert second_wish.closed
    assert len(bench.hub) == 1
    assert len(well.got) == 1


def test_a_tick_of_8_gpus_and_10_kernels_is_at_most_2_kb() -> None:
    devices = tuple(
        DeviceView(
            sample=DeviceSample(
                device=Device(id=f"GPU-{n}", kind="cuda", index=n, name="NVIDIA H200"),
                total_bytes=150_754_820_096,
                used_bytes=123_456_789_504 + n,
                free_bytes=26_797_105_152,
                driver_reserved_bytes=500_924_416,
                utilization_percent=97.0,
                temperature_c=71.0,
                power_w=688.123,
            ),
            other_bytes=12_345_678_901,
            unattributed_bytes=1_234_567_890,
        )
        for n in range(8)
    )
    parts = {"allocated": 98_765_432_109, "reserved_free": 9_876_543_210, "context": 612_368_384}
    kernels = tuple(
        KernelView(
            kernel_id=f"00000000-0000-0000-0000-00000000000{n}",
            pid=100_000 + n,
            name=f"notebook-{n}.ipynb",
            paths=(f"work/notebook-{n}.ipynb",),
            state="busy",
            report_time=1_764_547_199.7,
            devices=(
                KernelDevice(
                    device_id=f"GPU-{n % 8}",
                    process_bytes=109_254_343_703,
                    allocated_bytes=98_765_432_109,
                    reserved_bytes=108_641_975_319,
                    peak_allocated_bytes=101_234_567_890,
                    parts=parts,  # type: ignore[arg-type]
                ),
            ),
        )
        for n in range(10)
    )
    builder = TickBuilder()
    view = Snapshot(time=1_764_547_200.123456, interval_s=1.0, devices=devices, kernels=kernels)
    first = builder.build(view)
    message = builder.build(view).message(first.revisions)
    assert len(encode(message)) <= 2000
