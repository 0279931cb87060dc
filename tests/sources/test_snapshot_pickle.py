"""Every variant of torch's snapshots is read; what is none, or means harm, is refused."""

from __future__ import annotations

import base64
import gc
import pickle
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_vram.errors import SnapshotError, VramError
from jupyter_vram.sources import snapshot_events as se
from jupyter_vram.sources.snapshot_pickle import load_snapshot, loads_snapshot
from support.allocation_programs import STACKS
from support.allocator_rules import MIB
from support.caching_allocator import VERSIONS, CachingAllocator, Version

REAL = Path(__file__).resolve().parents[1] / "data" / "snapshots"


def raw(name: str) -> dict[str, Any]:
    with (REAL / f"{name}.pickle").open("rb") as file:
        loaded: dict[str, Any] = pickle.load(file)
        return loaded


def dumps(value: object, protocol: int = 4) -> bytes:
    return pickle.dumps(value, protocol=protocol)


def recorded(version: Version = "2.6", events: int = 3) -> dict[str, Any]:
    allocator = CachingAllocator(version=version)
    allocator.record()
    for i in range(events // 3):
        allocator.free(allocator.malloc(100 + i, frames=list(STACKS[i % 5])))
    allocator.malloc(3 * MIB, frames=STACKS[0])
    return allocator.snapshot()


@pytest.mark.parametrize("path", sorted(REAL.glob("*.pickle")), ids=lambda path: path.stem)
def test_real_snapshots_are_read_as_they_are(path: Path) -> None:
    plain = raw(path.stem)
    snapshot = load_snapshot(path)
    assert snapshot.segments.address.tolist() == [s["address"] for s in plain["segments"]]
    assert snapshot.segments.device.tolist() == [s["device"] for s in plain["segments"]]
    blocks = [b for s in plain["segments"] for b in s["blocks"]]
    assert snapshot.blocks.size_bytes.tolist() == [b["size"] for b in blocks]
    assert len(snapshot.traces) == len(plain["device_traces"])
    for events, told in zip(snapshot.traces, plain["device_traces"], strict=True):
        assert events.address.tolist() == [e["addr"] for e in told]
        assert events.size_bytes.tolist() == [e["size"] for e in told]
        names = Counter(e["action"] for e in told)
        assert Counter(events.action.tolist()) == {se.ACTIONS[n]: c for n, c in names.items()}
        for row, event in zip(events.stack.tolist(), told, strict=True):
            if event["action"] == "alloc":
                assert events.stacks[row] == event["frames"]
            else:
                assert row == se.NO_STACK


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_and_protocol(version: Version, protocol: int) -> None:
    plain = recorded(version)
    snapshot = loads_snapshot(dumps(plain, protocol))
    (events,) = snapshot.traces
    assert events.address.tolist() == [e["addr"] for e in plain["device_traces"][0]]
    addresses = [b.get("address") for s in plain["segments"] for b in s["blocks"]]
    if version == "2.0":
        # Rebuilt: each begins where the one before ends.
        assert set(addresses) == {None}
        starts = np.concatenate([[0], np.cumsum(snapshot.blocks.size_bytes)])
        assert snapshot.blocks.address[0] == snapshot.segments.address[0]
        assert len(starts) == len(snapshot.blocks.address) + 1
    else:
        assert snapshot.blocks.address.tolist() == addresses
    assert (events.time_us == se.NO_TIME).all() == (version in {"2.0", "2.1"})


def test_a_bare_list_of_segments() -> None:
    plain = raw("two_devices_empty_traces")
    snapshot = loads_snapshot(dumps(plain["segments"]))
    assert len(snapshot.segments.device) == 370
    assert snapshot.traces == ()


def test_a_viewers_page_holds_the_snapshot(tmp_path: Path) -> None:
    from torch.cuda._memory_viz import segment_plot, trace_plot

    plain = raw("full_cycle_small")
    for plot in (trace_plot, segment_plot):
        page = tmp_path / "page.html"
        page.write_text(plot(plain), encoding="utf-8")
        snapshot = load_snapshot(page)
        assert len(snapshot.traces[0]) == 97


def test_stale_requests_of_free_blocks_are_left_out() -> None:
    snapshot = load_snapshot(REAL / "two_devices_empty_traces.pickle")
    free = snapshot.blocks.state == se.INACTIVE
    assert free.any()
    assert not snapshot.blocks.requested_bytes[free].any()


def test_pool_ids_may_be_lists_and_unknown_actions_are_kept_apart() -> None:
    plain = recorded()
    plain["segments"][0]["segment_pool_id"] = [0, 0]
    plain["segments"][1]["segment_pool_id"] = [0, 4]
    plain["device_traces"] += [[{"action": "annotate"}, {"action": "snapshot", "addr": 0}], []]
    snapshot = loads_snapshot(dumps(plain))
    assert snapshot.segments.private.tolist() == [False, True]
    assert snapshot.traces[1].action.tolist() == [se.OTHER, se.OTHER]
    assert len(snapshot.traces[2]) == 0


def test_long_histories_of_two_devices_are_taken_while_they_are_read(tmp_path: Path) -> None:
    n = 3 * se.CHUNK
    frames = [[{"filename": "/home/u/a.py", "name": f"f{i}", "line": i}] for i in range(50)]

    def trace(first: int) -> list[dict[str, Any]]:
        return [
            {"action": "alloc", "addr": first + i, "size": i, "stream": 0, "time_us": i,
             "frames": list(frames[i % 50]), "user_metadata": "x" * (i % 5 == 0) * 100 + str(i)}
            for i in range(n)
        ]  # fmt: skip

    path = tmp_path / "long.pickle"
    path.write_bytes(dumps({"segments": [], "device_traces": [trace(0), trace(10**9)]}))
    snapshot = load_snapshot(path)
    for events, first in zip(snapshot.traces, (0, 10**9), strict=True):
        assert events.address.tolist() == list(range(first, first + n))
        assert len(events.stacks) == 50
        assert [events.stacks[row][0]["line"] for row in events.stack[:100]] == [*range(50)] * 2


def test_a_long_history_is_never_held_whole(tmp_path: Path) -> None:
    event = {"action": "alloc", "size": 1, "stream": 0, "frames": []}
    events = [{**event, "addr": i + (1 << 40), "time_us": i + (1 << 50)} for i in range(200_000)]
    path = tmp_path / "long.pickle"
    path.write_bytes(dumps({"segments": [], "device_traces": [events]}))
    del events
    tracemalloc.start()
    try:
        load_snapshot(path)
        _, highest = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Held whole they are 300 bytes each.
    assert highest < 200_000 * 220


def test_the_collector_is_on_again_afterwards() -> None:
    assert gc.isenabled()
    loads_snapshot(dumps(recorded()))
    assert gc.isenabled()
    with pytest.raises(SnapshotError):
        loads_snapshot(b"")
    assert gc.isenabled()


class Runs:
    ran = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Runs, "ran", True)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_no_code_runs(protocol: int) -> None:
    plain = recorded()
    plain["device_traces"][0][0]["frames"] = Runs()
    with pytest.raises(SnapshotError, match="wants to run code"):
        loads_snapshot(dumps(plain, protocol))
    assert not Runs.ran


def recursive() -> bytes:
    plain = recorded()
    plain["device_traces"][0].append(plain["device_traces"][0])
    return dumps(plain)


def named_often() -> bytes:
    plain = recorded(events=3000)
    plain["device_traces"] = [plain["device_traces"][0]] * 1000
    return dumps(plain)


def blocks_named_often() -> bytes:
    plain = recorded()
    blocks = [dict(plain["segments"][0]["blocks"][0]) for _ in range(500)]
    plain["segments"] = [{"total_size": 1, "blocks": blocks} for _ in range(500)]
    return dumps(plain)


def with_event(**changed: Any) -> bytes:
    plain = recorded()
    event = next(e for e in plain["device_traces"][0] if e["action"] == "alloc")
    event |= changed
    return dumps(plain)


def with_segment(**changed: Any) -> bytes:
    plain = recorded()
    plain["segments"][0] |= changed
    return dumps(plain)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"hello",
        b"{}",
        b"<html></html>",
        b'<html>"base64": "AAAAA"</html>',
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x04\x8e\x00\x00\x00\x00\x00\x01\x00\x00.",
        b"\x80\x04Q.",
        b"I" + b"9" * 100_000 + b"\n.",
        b"(" * 10_000 + b".",
        b"\x80\x04" + b"]\x94" * 10_000 + b"a" * 9_999 + b".",
        dumps(recorded())[:-40],
        dumps(recorded())[:40],
        dumps(None),
        dumps({"segments": 3}),
        dumps({"segments": [3]}),
        dumps({"segments": [{}]}),
        dumps({"segments": [], "device_traces": {}}),
        dumps({"segments": [], "device_traces": [3]}),
        dumps({"segments": [], "device_traces": [[3]]}),
        dumps({"segments": [], "device_traces": [["alloc"]]}),
        dumps({"segments": [], "device_traces": [[{"size": 3}]]}),
        dumps({"segments": [], "device_traces": [[]] * 5000}),
        with_event(addr="here"),
        with_event(addr=1 << 70),
        with_event(size=None),
        with_event(size=float("nan")),
        with_event(action=[]),
        with_event(frames=7),
        with_segment(blocks=7),
        with_segment(blocks=[7]),
        with_segment(blocks=[{"size": 1 << 90, "state": "inactive"}]),
        with_segment(blocks=[{"size": 1, "state": []}]),
        with_segment(segment_pool_id=3),
        with_segment(total_size="x"),
        recursive(),
        named_often(),
        blocks_named_often(),
    ],
)
def test_what_is_no_snapshot_is_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(SnapshotError) as caught:
        loads_snapshot(data)
    assert isinstance(caught.value, VramError)
    assert str(caught.value).endswith((".", "!"))


def test_a_file_that_is_too_big_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "big.pickle"
    path.write_bytes(dumps(recorded()))
    with pytest.raises(SnapshotError, match="at most 100 are read"):
        load_snapshot(path, max_bytes=100)
    with pytest.raises(SnapshotError, match="can't be read"):
        load_snapshot(tmp_path / "none.pickle")
    with pytest.raises(SnapshotError, match="can't be read"):
        load_snapshot(tmp_path)


def test_any_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    data = (REAL / "full_cycle_small.pickle").read_bytes()
    for end in range(0, len(data) - 1, 997):
        with pytest.raises(SnapshotError):
            loads_snapshot(data[:end])


def test_a_damaged_page_is_refused() -> None:
    data = base64.b64encode(dumps(recorded())).decode()
    page = f'<html><script>const files = [{{"base64": "{data[:-9]}"}}]</script></html>'
    with pytest.raises(SnapshotError):
        loads_snapshot(page.encode())


def test_nothing_of_the_file_stays_but_the_columns() -> None:
    gc.collect()
    gc.disable()
    try:
        data = dumps(recorded(events=3000))
        before = len(gc.get_objects())
        snapshot = loads_snapshot(data)
        # No cycle: what was read is gone at once, without the collector.
        assert len(gc.get_objects()) - before < 200
    finally:
        gc.enable()
    assert len(snapshot.traces[0]) > 3000
