"""``%%vram`` in an IPython shell of this process: the cell runs as without it, and is recorded."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jupyter_vram
from jupyter_vram import reports
from jupyter_vram.errors import TorchMissingError
from jupyter_vram.kernel import cell_recording
from jupyter_vram.kernel.cell_recording import CellRecordings, cell_labels
from jupyter_vram.model.report_data import MIME_TYPE, ReportData
from jupyter_vram.recorders.recorder import Recorder
from support.shells import Cell, Shell, new_shell

torch = pytest.importorskip("torch")

MIB = 2**20
SETUP = "import asyncio, torch\nMIB = 2**20\ndef tensor(mib): return torch.ones(mib * MIB // 4)\n"


@pytest.fixture(scope="module")
def bare_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with new_shell(tmp_path_factory.mktemp("ipython")) as shell:
        shell(SETUP)
        yield shell


@pytest.fixture
def shell(bare_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Loaded, and after the test nothing must be left of it."""
    monkeypatch.chdir(tmp_path)
    bare, names = bare_shell.traces(), dict(bare_shell.ip.user_ns)
    jupyter_vram.load_ipython_extension(bare_shell.ip)
    loaded = bare_shell.traces()
    yield bare_shell
    assert not torch.autograd._profiler_enabled()
    assert sys.gettrace() is None
    assert bare_shell.traces() == loaded
    jupyter_vram.unload_ipython_extension(bare_shell.ip)
    assert bare_shell.traces() == bare
    bare_shell.ip.user_ns.clear()
    bare_shell.ip.user_ns.update(names)
    reports.forget()


def lines_of(report: ReportData, least_bytes: int = MIB // 2) -> dict[int, int]:
    """Line → MiB allocated by it and alive at the peak or at the end."""
    return {
        line.number: round(max(line.peak_bytes, line.kept_bytes) / MIB)
        for line in report.source
        if max(line.peak_bytes, line.kept_bytes) >= least_bytes
    }


# --- a cell runs as without the magic ------------------------------------------------------------

CELLS = {
    "expression": "x = 6\nx * 7",
    "one expression": "6 * 7",
    "no value": "6 * 7;",
    "string": "'no docstring'",
    "function": "def f(a):\n    return a + 1\nf(1)",
    "await": "await asyncio.sleep(0)\nx = 1\nx",
    "async for": "async def g():\n    yield 1\n[i async for i in g()]",
    "shell escape": "!echo hello",
    "shell assignment": "out = !echo hello\nout",
    "line magic": "%time y = 3\ny",
    "automagic": "pwd",
    "autocall": "/len 'abc'",
    "help": "len?",
    "run": "%run script.py\nran",
    "future": "from __future__ import annotations\ndef f(x: nonsense): ...\nf.__annotations__",
    "indented": "    x = 1\n    x",
    "prompts": ">>> x = 1\n>>> x",
    "ipython prompts": "In [1]: x = 1\n\nIn [2]: x",
    "empty lines": "\n\nx = 1\n\nx\n\n",
    "comment": "# nothing",
    "error": "x = 1\n1 / 0",
    "error in a function": "def f():\n    raise KeyError('a')\n\nf()",
    "system exit": "raise SystemExit(3)",
    "interrupt": "x = 1\nraise KeyboardInterrupt",
    "syntax error": "x = 1\nx = = 2",
    "late syntax error": "x = 1\nreturn x",
    "bad indentation": "x = 1\n  y = 2",
    "unknown magic": "%no_such_magic",
    "unknown cell magic": "%%no_such_magic\nx",
    "time": "%%time\nx = 1\nx + 1",
    "time, one expression": "%%time\n6 * 7",
    "time, an error": "%%time\nx = 1\n1 / 0",
    "time, indented": "%%time\n    x = 1\n    x",
    "time, escapes": "%%time\nout = !echo hello\nout",
    "capture": "%%capture out\nprint('hello')\n6 * 7",
    "capture, an error": "%%capture out\n1 / 0",
    "timeit": "%%timeit -n 1 -r 1 -q\nx = 1",
    "writefile": "%%writefile written.txt\nhello",
    "bash": "%%bash\necho hello",
    "html": "%%html\n<b>bold</b>",
    "two magics": "%%time\n%%capture out\nprint(1)",
    "cell within": "get_ipython().run_cell('y = 5\\ny');",
    "error within": "r = get_ipython().run_cell('1 / 0')\nr.success",
    "display": "from IPython.display import display\ndisplay(1, 2)\n3",
    "underscore": "_",
    "tqdm": "from tqdm import tqdm\nsum(tqdm(range(3), disable=True))",
}
NOISE = re.compile(r"(CPU times|Wall time).*\n|Out\[\d+\]: |In\[\d+\]")


def observed(cell: Cell, names: dict[str, Any]) -> dict[str, Any]:
    error = cell.error
    return {
        "success": cell.result.success,
        "value": repr(cell.result.result).replace("%%vram\\n", ""),
        "error": (type(error), str(error).replace("%%vram", "")) if error else None,
        "outputs": [data for data in cell.outputs if MIME_TYPE not in data],
        "stdout": NOISE.sub("", cell.stdout),
        "names": names,
    }


def run_anew(shell: Shell, code: str) -> tuple[Cell, dict[str, Any]]:
    before = set(shell.ip.user_ns)
    cell = shell(code)
    new = {
        name: repr(value)
        for name, value in shell.ip.user_ns.items()
        if name not in before and not name.startswith("_") and " at " not in repr(value)
    }
    for name in set(shell.ip.user_ns) - before:
        del shell.ip.user_ns[name]
    return cell, new


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_runs_as_without_the_magic(name: str, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("ran = 'yes'\nprint('in the script')\n")
    code = CELLS[name]
    shell("'something for _'")
    plain, plain_names = run_anew(shell, code)
    (tmp_path / "written.txt").unlink(missing_ok=True)
    shell("'something for _'")
    recorded, names = run_anew(shell, f"%%vram\n{code}")
    expected, found = observed(plain, plain_names), observed(recorded, names)
    if name == "error":
        assert recorded.error_lines("<ipython") == [3]
        assert "----> 3 1 / 0" in recorded.stdout
        assert "line 3" in recorded.stdout
    if expected["error"] is not None:
        # The traceback shows numbers of cells and lines, and the magic's line.
        assert bool(found.pop("stdout")) == bool(expected.pop("stdout"))
    if expected["error"] is not None and expected["error"][0] in (SyntaxError, IndentationError):
        assert recorded.error.lineno == plain.error.lineno + 1
        expected.pop("error")
        found.pop("error")
    assert found == expected
    if plain.result.error_before_exec is None:
        assert recorded.report.error == (type(plain.error).__name__ if plain.error else None)


@pytest.mark.parametrize("name", ["syntax error", "bad indentation", "unknown magic"])
def test_what_did_not_run_has_no_report_or_an_empty_one(name: str, shell: Shell) -> None:
    cell = shell(f"%%vram\n{CELLS[name]}")
    assert not cell.result.success
    assert all(report.retained_bytes == 0 for report in cell.reports)
    assert bool(cell.reports) == (name == "unknown magic")


def test_the_history_has_the_cell_as_it_was_written(shell: Shell) -> None:
    count = shell.ip.execution_count
    cell = shell("%%vram --name a\nx = 1\nx")
    assert cell.result.execution_count == count
    assert shell["In"][count] == "#%%vram --name a\nx = 1\nx"
    assert shell.ip.history_manager.input_hist_raw[count] == "%%vram --name a\nx = 1\nx"
    assert shell["Out"][count] == 1
    assert shell.ip.execution_count == count + 1


# --- what the report says ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("%%vram\na = tensor(3)\nb = tensor(5)", {2: 3, 3: 5}),
        ("\n\n%%vram\n\na = tensor(3)\n\nb = tensor(5)", {5: 3, 7: 5}),
        ("%%vram\nfor i in range(2):\n    a = tensor(3)\nawait asyncio.sleep(0)\nb = a + 1", None),
        ("%%vram\n%%time\na = tensor(3)\n\nb = tensor(5)\nb;", {3: 3, 5: 5}),
        ("%%vram\n\n%%time\n\na = tensor(3)\nb = tensor(5)", {5: 3, 6: 5}),
        ("%%time\n%%vram --no-plot\na = tensor(3)\nb = tensor(5)", {3: 3, 4: 5}),
        ("%%vram\n%%timeit -n 1 -r 1\n\na = tensor(3)\nb = tensor(5)", {4: 3, 5: 5}),
        ("%%vram\n%%prun -q\na = tensor(3)\nb = tensor(5)", {3: 3, 4: 5}),
        ("%%vram\n%%capture out\n\na = tensor(3)\nb = tensor(5)", {4: 3, 5: 5}),
        ("%%vram\n%%time\n%%capture out\na = tensor(3)\nb = tensor(5)", {4: 3, 5: 5}),
        ("%%vram\nx = 1\n%time a = tensor(3)\nb = tensor(5)", {3: 3, 4: 5}),
        ("%%vram\ndef f():\n    return tensor(3)\na = f()", {3: 3}),
    ],
)
def test_lines(code: str, lines: dict[int, int] | None, shell: Shell) -> None:
    report = shell(code).report
    assert [line.text for line in report.source] == code.splitlines()
    if lines is None:
        lines = {3: 3, 5: 3}
    assert lines_of(report) == lines


def test_a_function_of_an_earlier_cell_is_named_by_it(shell: Shell) -> None:
    shell("def make():\n    return tensor(4)")
    number = shell.ip.execution_count - 1
    report = shell("%%vram\na = make()").report
    assert lines_of(report) == {2: 4}
    # `tensor` is of the first cell.
    assert any(row.name.startswith("line 2 › In [1]:") for row in report.by_line)
    filename = shell["make"].__code__.co_filename
    assert cell_labels(shell.ip)[filename] == f"In [{number}]"
    assert filename in set(cell_labels(shell.ip))
    assert "a library's file" not in cell_labels(shell.ip)


def test_two_cells_with_the_same_text(shell: Shell) -> None:
    code = "%%vram\ndef twice():\n    return tensor(2)\na = twice()"
    first, second = shell(code), shell(code)
    assert lines_of(first.report) == lines_of(second.report) == {3: 2}
    assert second.report.execution_count == (first.report.execution_count or 0) + 1


def test_a_named_cell_and_what_it_kept(shell: Shell) -> None:
    report = shell("%%vram --name first\nkept = tensor(3)\ngone = tensor(5)\ndel gone").report
    assert report.name == "first"
    assert report.execution_count == shell.ip.execution_count - 1
    assert report.peak_bytes - report.start_bytes >= 8 * MIB
    assert report.retained_bytes == 3 * MIB
    assert [kept.name for kept in report.kept] == ["kept"]
    last = jupyter_vram.last_report()
    assert last is not None
    assert last.name == "first"
    assert last == reports.named_report("first")


def test_an_error_is_told_and_its_figures_are_there(shell: Shell) -> None:
    cell = shell("%%vram\na = tensor(3)\n1 / 0\nb = tensor(5)")
    assert cell.error_lines("<ipython") == [3]
    assert cell.report.error == "ZeroDivisionError"
    assert lines_of(cell.report) == {2: 3}


def test_an_interrupt_still_brings_the_report(shell: Shell) -> None:
    cell = shell("%%vram\na = tensor(3)\nraise KeyboardInterrupt")
    assert isinstance(cell.error, KeyboardInterrupt)
    assert cell.report.error == "KeyboardInterrupt"
    assert lines_of(cell.report) == {2: 3}


def test_a_second_cell_without_the_magic_is_not_recorded(shell: Shell) -> None:
    shell("%%vram\nx = 1")
    assert shell("x").reports == []


def test_a_run_that_is_not_stored(shell: Shell) -> None:
    report = shell("%%vram\na = tensor(3)", store_history=False).report
    assert report.execution_count is None
    assert lines_of(report) == {2: 3}


def test_a_silent_request_is_not_recorded(shell: Shell) -> None:
    cell = shell("%%vram\na = tensor(3)", silent=True)
    assert cell.outputs == []
    assert shell["a"].numel() == 3 * MIB // 4


def test_the_report_is_no_output_of_the_history(shell: Shell) -> None:
    before = list(shell["Out"])
    shell("%%vram\nx = 1")
    assert list(shell["Out"]) == before


# --- options -------------------------------------------------------------------------------------


def test_an_unknown_option_tells_the_usage_and_nothing_runs(shell: Shell) -> None:
    cell = shell("%%vram --bogus\nran = True")
    assert type(cell.error).__name__ == "UsageError"
    assert "no option --bogus" in str(cell.error)
    assert "--compare" in cell.stdout + cell.stderr
    assert "ran" not in shell.ip.user_ns
    assert cell.outputs == []


@pytest.mark.parametrize("code", ["%%vram", "%%vram\n\n", "%%vram\n%%vram\nx = 1"])
def test_a_malformed_cell_says_so(code: str, shell: Shell) -> None:
    cell = shell(code)
    assert type(cell.error).__name__ == "UsageError"
    assert cell.reports == []


def test_as_binds_and_save_writes(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cell = shell("%%vram --as found --save saved.json\n%cd -q elsewhere\na = tensor(3)")
    found = shell["found"]
    assert found.retained_bytes == cell.report.retained_bytes == 3 * MIB
    assert jupyter_vram.Report.load(tmp_path / "saved.json") == found


def test_compare(shell: Shell) -> None:
    shell("%%vram --name before\na = tensor(3)")
    report = shell("%%vram --name after --compare before\na = tensor(5)").report
    assert report.comparison is not None
    assert report.comparison.name == "before"
    # A name used again compares with its former report.
    report = shell("%%vram --name after --compare after\na = tensor(6)").report
    assert report.comparison is not None
    assert report.comparison.name == "after"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--compare nothing", "no report has the name 'nothing'"),
        ("--save no/such/folder/a.json", "does not exist"),
        ("--save a.docx", "ends with"),
        ("--device cuda:7", "'cuda:7'"),
    ],
)
def test_a_bad_value_never_loses_the_result(option: str, words: str, shell: Shell) -> None:
    cell = shell(f"%%vram {option}\na = tensor(3)\n42")
    assert cell.result.success
    assert cell.result.result == 42
    assert words in cell.stderr
    assert cell.report.retained_bytes == 3 * MIB


def test_what_can_be_told_before_is_told_before(shell: Shell) -> None:
    seen = shell("%%vram --compare nothing\nimport sys\nearly = sys.stderr.getvalue()")
    assert "no report has the name" in shell["early"]
    assert seen.stderr.count("no report has the name") == 1


def test_no_plot_and_detail(shell: Shell) -> None:
    report = shell("%%vram\na = tensor(3)").report
    assert len(report.curve.time_s) > 1
    report = shell("%%vram --no-plot --detail op\na = tensor(3)").report
    assert report.curve.time_s == ()
    assert report.detail == "op"


# --- recordings within recordings ----------------------------------------------------------------


def test_a_recording_in_python_within_the_cell(shell: Shell) -> None:
    code = (
        "%%vram\nimport jupyter_vram\na = tensor(3)\n"
        "with jupyter_vram.record() as inner:\n    b = tensor(5)\nc = tensor(7)"
    )
    report = shell(code).report
    assert lines_of(report) == {3: 3, 5: 5, 6: 7}
    inner = shell["inner"].report
    assert inner.retained_bytes == 5 * MIB


def test_a_statement_within_the_cell(shell: Shell) -> None:
    cell = shell("%%vram\na = tensor(3)\n%vram b = tensor(5)\nc = tensor(7)")
    inner, outer = cell.reports
    assert inner.retained_bytes == 5 * MIB
    assert lines_of(outer) == {2: 3, 3: 5, 4: 7}


def test_a_cell_run_by_the_cell(shell: Shell) -> None:
    code = "%%vram\na = tensor(3)\nget_ipython().run_cell('%%vram --name in\\nb = tensor(5)')\n"
    inner, outer = shell(code).reports
    assert inner.name == "in"
    assert inner.retained_bytes == 5 * MIB
    assert outer.retained_bytes == 8 * MIB


def test_a_cell_that_captures_a_recorded_one(shell: Shell) -> None:
    cell = shell("%%capture out\n%%vram\na = tensor(3)")
    assert cell.outputs == []
    (output,) = shell["out"].outputs
    assert MIME_TYPE in output.data


def test_the_magic_called_as_a_function(shell: Shell) -> None:
    cell = shell("get_ipython().run_cell_magic('vram', '--name f', 'a = tensor(3)\\na.numel()')")
    assert cell.result.result == 3 * MIB // 4
    assert cell.report.name == "f"
    assert lines_of(cell.report) == {2: 3}
    cell = shell("get_ipython().run_cell_magic('vram', '', '1 / 0')")
    assert isinstance(cell.error, ZeroDivisionError)
    assert cell.report.error == "ZeroDivisionError"


# --- what goes wrong -----------------------------------------------------------------------------


def test_without_torch_a_sentence_and_the_cell_runs(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_vram.recorders.recorder.torch_if_installed", lambda: None)
    cell = shell("%%vram\n6 * 7")
    assert cell.result.result == 42
    assert "PyTorch is not installed" in cell.stderr
    assert "Traceback" not in cell.stdout + cell.stderr
    assert cell.outputs == []
    assert shell("%vram 6 * 7").result.result == 42


def test_torchs_profiler_is_on_already(shell: Shell) -> None:
    shell("p = torch.profiler.profile(); p.start()")
    try:
        cell = shell("%%vram\na = tensor(3)\n42")
    finally:
        shell("p.stop()")
    assert cell.result.result == 42
    assert "profiler" in cell.stderr
    assert cell.reports == []


def test_a_cell_that_runs_torchs_profiler(shell: Shell) -> None:
    code = "%%vram\nwith torch.profiler.profile() as p:\n    a = tensor(3)\nlen(p.events()) > 0"
    cell = shell(code)
    assert cell.result.result is True
    assert not cell.report.exact
    assert any("profiler" in note for note in cell.report.notes)


def test_a_fault_of_ours_after_the_cell_keeps_its_result(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("our own fault")

    monkeypatch.setattr(jupyter_vram.Report, "from_recording", broken)
    for code in ("%%vram\na = 1\n42", "%vram 42"):
        cell = shell(code)
        assert cell.result.success
        assert cell.result.result == 42
        assert "our own fault" in cell.stdout + cell.stderr
    monkeypatch.undo()
    assert lines_of(shell("%%vram\na = tensor(3)").report) == {2: 3}


def test_a_recorder_that_does_not_start_leaves_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Recorder, frame: object = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "start", interrupted)
    cell = shell("%%vram\n42")
    assert cell.result.result == 42
    assert cell.reports == []
    monkeypatch.undo()
    assert shell("x = 1").reports == []


def test_an_end_without_a_result(shell: Shell) -> None:
    # As ipykernel tells of an interrupted cell that awaits.
    recordings = the_recordings(shell)
    info = shell("1").result.info
    info.raw_cell = "%%vram\nx = 1"
    recordings._begin(info)
    assert torch.autograd._profiler_enabled()
    recordings._end(None)
    assert not torch.autograd._profiler_enabled()
    last = jupyter_vram.last_report()
    assert last is not None
    assert last.to_dict()["error"] == "KeyboardInterrupt"


def test_a_run_whose_end_was_never_told_is_abandoned(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = the_recordings(shell)
    info = shell("1").result.info
    info.raw_cell = "%%vram\nx = 1"
    monkeypatch.setattr(cell_recording, "request_id", lambda _: "an earlier request")
    recordings._begin(info)
    assert torch.autograd._profiler_enabled()
    monkeypatch.undo()
    assert lines_of(shell("%%vram\na = tensor(3)").report) == {2: 3}


def the_recordings(shell: Shell) -> CellRecordings:
    (callback,) = (
        function
        for function in shell.ip.events.callbacks["pre_run_cell"]
        if isinstance(getattr(function, "__self__", None), CellRecordings)
    )
    recordings = callback.__self__
    assert isinstance(recordings, CellRecordings)
    return recordings


# --- loading and unloading -----------------------------------------------------------------------


@pytest.mark.parametrize("code", ["%%vram\n%unload_ext jupyter_vram\na = tensor(3)"])
def test_unloading_within_a_recorded_cell(code: str, shell: Shell) -> None:
    shell("%unload_ext jupyter_vram")
    shell("%load_ext jupyter_vram")
    assert lines_of(shell(code).report) == {3: 3}
    assert not any(
        isinstance(getattr(function, "__self__", None), CellRecordings)
        for functions in shell.ip.events.callbacks.values()
        for function in functions
    )
    assert shell("%%vram\nx = 1").error is not None
    shell("%load_ext jupyter_vram")


def test_reloading_within_a_recorded_cell(shell: Shell) -> None:
    shell("%unload_ext jupyter_vram")
    shell("%load_ext jupyter_vram")
    assert lines_of(shell("%%vram\n%reload_ext jupyter_vram\na = tensor(3)").report) == {3: 3}
    assert lines_of(shell("%%vram\na = tensor(3)").report) == {2: 3}


def test_a_recorder_of_the_tests_own(shell: Shell) -> None:
    # What the recorder is told, and that a thread's cell is told from another's.
    told: list[Any] = []

    class Telling:
        def start(self) -> None:
            raise TorchMissingError("no torch today")

        def stop(self, *_: object) -> Any:
            raise AssertionError("it never started")

        abandon = stop

    def make(ip: Any, cell: Any, options: Any) -> Telling:
        told.append((cell, options, threading.get_ident()))
        return Telling()

    shell("%unload_ext jupyter_vram")
    recordings = CellRecordings(shell.ip, make)
    recordings.attach()
    try:
        cell = shell("\n%%vram --name a\nx = 1")
    finally:
        recordings.detach()
    assert "no torch today" in cell.stderr
    ((code, options, thread),) = told
    assert code.text == "\n%%vram --name a\nx = 1"
    assert code.line_offset == 1
    assert code.execution_count == cell.result.execution_count
    assert options.name == "a"
    assert thread == threading.get_ident()
    jupyter_vram.load_ipython_extension(shell.ip)
