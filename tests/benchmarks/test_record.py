"""The benchmarks of recording: what they measure is what they say, in small."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from benchmarks import events, recording, recording_peers, snapshots
from benchmarks.recorded_cells import BARE, GPT, MEMLAB, SUBJECTS, TINY, VRAM, cell
from benchmarks.recorded_events import OURS
from jupyter_vram.analysis.live import live_bytes
from jupyter_vram.model.trace import NONE
from jupyter_vram.report import Report

ROOT = Path(__file__).resolve().parents[2]


def test_a_written_snapshot_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    snapshots.write(path, 5_000)
    content = pickle.loads(path.read_bytes())
    (trace,) = content["device_traces"]
    assert 5_000 <= len(trace) <= 5_002
    live: dict[int, int] = {}
    for event in trace:
        if event["action"] == "alloc":
            assert event["addr"] not in live
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            del live[event["addr"]]
    blocks = [block for segment in content["segments"] for block in segment["blocks"]]
    held = {b["address"]: b["requested_size"] for b in blocks if b["state"] == "active_allocated"}
    assert held == live
    for segment in content["segments"]:
        assert segment["total_size"] == sum(block["size"] for block in segment["blocks"])
    report = Report.load(path)
    assert report.end_bytes == sum(segment["allocated_size"] for segment in content["segments"])
    assert report.start_bytes == 0


def test_a_made_trace_adds_up() -> None:
    trace = snapshots.trace(20_000)
    blocks = trace.blocks
    assert len(trace.change_bytes) == 20_000 - int((blocks.free_event == NONE).sum())
    live = live_bytes(trace)
    assert live.min() >= 0
    assert live[-1] == blocks.size_bytes[blocks.free_event == NONE].sum() > 0
    rows = range(len(blocks))
    assert (trace.block[blocks.alloc_event] == rows).all()
    ended = blocks.free_event != NONE
    assert (blocks.free_event[ended] > blocks.alloc_event[ended]).all()
    with pytest.raises(ValueError, match="pairs"):
        snapshots.trace(3)


def test_every_tool_wraps_the_same_work() -> None:
    for subject in SUBJECTS:
        text = cell(subject, "x = 1\ny = 2")
        compile(text.removeprefix("%%vram\n"), "cell", "exec")
        assert "def work():\n    x = 1\n    y = 2\n" in text
        assert text.startswith("%%vram") == (subject == VRAM)


def test_slow_down_is_told_round_by_round() -> None:
    def one(turn: int, work_s: float, all_s: float) -> dict[str, float]:
        return {"round": turn, "work_s": work_s, "cpu_s": work_s, "all_s": all_s}

    times = {
        BARE: [one(0, 1.0, 1.1), one(0, 3.0, 3.1), one(1, 1.0, 1.1), one(1, 1.0, 1.1)],
        VRAM: [one(0, 2.0, 2.6), one(1, 1.04, 1.64)],
    }
    ratio, around, peer = recording.slower(GPT, times, {MEMLAB: "no GPU"})
    assert ratio.value == pytest.approx(1.02)
    assert ratio.goal == 1.05
    assert around.value == pytest.approx(500)
    assert (peer.value, peer.verdict, peer.note) == (None, "not measured", "no GPU")


def test_the_tools_run_in_a_real_shell(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = recording.ask(
        recording.SCRIPT, "slowdown", TINY, "1", *recording.OURS, MEMLAB,
        IPYTHONDIR=str(tmp_path),
    )  # fmt: skip
    assert set(found["times"]) >= {BARE, *recording.OURS}
    assert len(found["times"][BARE]) == 3
    assert all(one["work_s"] > 0 for rounds in found["times"].values() for one in rounds)


def test_growth_is_an_exponent() -> None:
    def times(seconds: float) -> dict[str, list[float]]:
        return {"grouping_s": [seconds], "report_s": [seconds]}

    *_, growth = events.of_traces({1_000: times(0.1), 100_000: times(10.0)})
    assert growth.value == pytest.approx(1.0)
    assert growth.verdict == "met"


def test_a_file_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    snapshots.write(path, 3_000)
    found = recording.ask(events.SCRIPT, "file", OURS, str(path))
    assert found["output_bytes"] > 1_000
    assert found["peak_bytes"] >= found["resident_before_bytes"] > 0
    seconds, memory, size = events.of_file(OURS, [found])
    assert (seconds.unit, memory.unit, size.unit) == ("s", "MB", "MB")
    assert seconds.goal == 2.5
    assert memory.goal == 600


def test_a_failing_script_tells_its_reason() -> None:
    with pytest.raises(RuntimeError, match="FileNotFoundError"):
        recording.ask(events.SCRIPT, "file", OURS, "/nowhere/snapshot.pickle")


def test_the_extra_installs_the_peers() -> None:
    content = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^bench = \[(.*)\]$", content, re.M)
    assert found is not None
    for requirement in recording_peers.PEERS.values():
        assert f'"{requirement}"' in found[1]
