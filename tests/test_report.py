"""`Report` and `record()`: what a user calls."""

from __future__ import annotations

import contextlib
import json
import pickle
import weakref
from pathlib import Path

import pytest
import torch

import jupyter_vram
from jupyter_vram import reports
from jupyter_vram.errors import RecordingError, ReportError
from jupyter_vram.model.report_data import DIMENSIONS, MIME_TYPE
from jupyter_vram.report import Report
from reports.examples import EXAMPLES
from support.traces import Made, recording_of, trace_of

BLOCKS = [
    Made(size=100, identity="parameter", owner="m.weight", owner_module="m"),
    Made(size=50, comes=1, goes=4, line=1, module="m", op="aten::mul", saved=True),
    Made(size=30, comes=2, line=2, phase="other", op="aten::randn", owner="x"),
]
SNAPSHOT = Path(__file__).parent / "data/snapshots/full_cycle_small.pickle"


@pytest.fixture
def report() -> Report:
    return Report.from_recording(recording_of(trace_of(BLOCKS), text="y = m(x)\nx = 3"))


def test_figures(report: Report) -> None:
    assert (report.start_bytes, report.peak_bytes, report.end_bytes) == (100, 180, 130)
    assert report.retained_bytes == 30
    assert report.device == "cpu"
    for by in DIMENSIONS:
        assert sum(row.bytes for row in report.at_peak(by)) == report.peak_bytes
    assert report.at_peak()[0].name == "parameter"
    with pytest.raises(RecordingError, match="category, line, module, op"):
        report.at_peak("colour")  # type: ignore[arg-type]


def test_tables_and_texts(report: Report) -> None:
    table = report.table("line")
    assert "line 1" in table
    assert table.splitlines()[-1].split() == ["peak", "180", "B", "3"]
    assert "180 B" in repr(report)
    assert "y = m(x)" in str(report)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_json_loads_back_to_an_equal_report(name: str, tmp_path: Path) -> None:
    report = Report(EXAMPLES[name]())
    path = report.save(tmp_path / "report.json")
    assert Report.load(path) == report
    assert Report.load(path).to_dict() == report.to_dict()


def test_events_are_written_for_the_viewers(report: Report, tmp_path: Path) -> None:
    snapshot = pickle.loads(report.save(tmp_path / "a.pickle").read_bytes())
    assert {"segments", "device_traces"} <= set(snapshot)
    again = Report.load(tmp_path / "a.pickle")
    assert again.peak_bytes == report.peak_bytes
    trace = json.loads(report.save(tmp_path / "a.perfetto.json").read_text())
    assert trace["traceEvents"]


def test_page_and_text_are_written(report: Report, tmp_path: Path) -> None:
    page = report.save(tmp_path / "a.html").read_text()
    assert page.startswith("<!doctype html>")
    assert report.save(tmp_path / "a.txt").read_text() == f"{report}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.txt"]


def test_a_report_from_json_has_no_events(tmp_path: Path) -> None:
    report = Report(EXAMPLES["gpu.json"]())
    with pytest.raises(RecordingError, match="no longer the events"):
        report.save(tmp_path / "a.pickle")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_ending_names_the_known(report: Report, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"\.perfetto\.json"):
        report.save(tmp_path / "report.csv")


def test_a_colleagues_snapshot_is_read() -> None:
    report = Report.load(SNAPSHOT)
    assert report.device.startswith("cuda")
    assert report.peak_bytes > 0
    assert report.to_dict()["recorder"] == "snapshot"


@pytest.mark.parametrize("content", [b"", b"{}", b"{", b"[1]", b"\x80\x04garbage", b"hello"])
def test_what_is_no_report_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises((ReportError, jupyter_vram.VramError)):
        Report.load(path)


def test_a_pickle_that_wants_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "touched"),))

    path = tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(jupyter_vram.VramError):
        Report.load(path)
    assert not (tmp_path / "touched").exists()


def test_mime_bundle(report: Report) -> None:
    bundle = report._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {MIME_TYPE, "text/html", "text/plain"}
    detailed = report.mime_bundle(plot=False, by="op")[MIME_TYPE]
    assert isinstance(detailed, dict)
    assert detailed["detail"] == "op"
    assert detailed["curve"]["time_s"] == []


def test_record_in_python() -> None:
    with jupyter_vram.record(name="mine") as recording:
        a = torch.zeros(1000)
        b = a + 1
        with pytest.raises(RecordingError, match="has ended"):
            _ = recording.report
    report = recording.report
    assert report.retained_bytes == 8_000
    assert report.name == "mine"
    assert jupyter_vram.last_report() is report
    lines = {row.name for row in report.at_peak("line")}
    assert sum(name.startswith("test_report.py:") for name in lines) == 2
    kept = {row["name"] for row in report.to_dict()["kept"]}
    assert {"a", "b"} <= kept
    assert b is not None


def test_record_of_a_block_that_fails() -> None:
    a = torch.zeros(1000)
    with pytest.raises(ZeroDivisionError), jupyter_vram.record() as recording:
        _ = 1 / (a.sum().item() * 0)
    assert recording.report.to_dict()["error"] == "ZeroDivisionError"


def test_an_unknown_device_does_not_lose_the_blocks_own_error() -> None:
    with pytest.raises(ZeroDivisionError), jupyter_vram.record(device="cuda:9"):
        _ = 1 / 0


def test_an_unknown_device_does_not_lose_the_report() -> None:
    with pytest.raises(RecordingError, match="'9'"), jupyter_vram.record(device=9) as recording:
        a = torch.zeros(1000)
    assert recording.report.retained_bytes >= 4_000
    assert jupyter_vram.last_report() is recording.report
    assert a is not None


def test_record_through_an_exit_stack_knows_its_lines() -> None:
    with contextlib.ExitStack() as stack:
        recording = stack.enter_context(jupyter_vram.record())
        a = torch.zeros(1000)
    names = {row.name for row in recording.report.at_peak("line")}
    assert any(name.startswith("test_report.py:") for name in names)
    assert a is not None


def test_what_a_function_deletes_after_a_recording_goes() -> None:
    with jupyter_vram.record():
        a = torch.zeros(1000)
    ref = weakref.ref(a)
    del a
    assert ref() is None


def test_public_names_load_when_they_are_used() -> None:
    assert set(jupyter_vram.__all__) <= set(dir(jupyter_vram))
    for name in jupyter_vram.__all__:
        assert getattr(jupyter_vram, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = jupyter_vram.nothing


def test_exports_carry_the_categories(report: Report, tmp_path: Path) -> None:
    trace = json.loads(report.save(tmp_path / "a.perfetto.json").read_text())
    counters = {name for event in trace["traceEvents"] for name in event.get("args", {})}
    assert {"parameter", "activation"} <= counters
    assert b"activation" in report.save(tmp_path / "a.pickle").read_bytes()


def test_what_stayed_is_told_by_the_report(report: Report) -> None:
    assert [(row.name, row.bytes) for row in report.kept] == [("x", 30)]
    assert report.exact
    assert report.notes == ()


def test_a_named_report_keeps_its_figures_only(report: Report, tmp_path: Path) -> None:
    reports.remember(report, "mine")
    named = reports.named_report("mine")
    assert named == report
    assert named is not None
    with pytest.raises(RecordingError, match="no longer the events"):
        named.save(tmp_path / "a.pickle")
    assert reports.last_report() is report
    reports.forget()


def test_reports_of_different_bytes_are_not_compared(report: Report) -> None:
    with pytest.raises(RecordingError, match="block bytes"):
        report.compared_with(Report(EXAMPLES["gpu.json"]()))


def test_another_device_than_the_files_is_refused(report: Report, tmp_path: Path) -> None:
    path = report.save(tmp_path / "a.json")
    assert Report.load(path, "cpu") == report
    with pytest.raises(ReportError, match="of cpu, not of cuda:0"):
        Report.load(path, "cuda:0")


def test_json_of_another_kind_is_no_report(report: Report, tmp_path: Path) -> None:
    path = report.save(tmp_path / "a.perfetto.json")
    with pytest.raises(ReportError, match="no report of jupyter_vram"):
        Report.load(path)


def test_a_form_feed_ends_no_line() -> None:
    text = "a = '\x0c'\r\ny = m(x)\n"
    data = Report.from_recording(recording_of(trace_of(BLOCKS), text=text)).to_dict()
    assert [line["text"] for line in data["source"]] == ["a = '\x0c'", "y = m(x)"]
