"""A recording of real torch: figures by hand, names, nested recordings, and nothing left behind."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_vram.analysis.cell_report import report_data
from jupyter_vram.errors import RecordingError, TorchMissingError
from jupyter_vram.model.cell_code import CellCode
from jupyter_vram.model.report_data import ReportData
from jupyter_vram.model.trace import Recording
from jupyter_vram.recorders import recorder as recorder_module
from jupyter_vram.recorders import session
from jupyter_vram.recorders.cell_monitor import TOOL_IDS
from jupyter_vram.recorders.recorder import Recorder
from jupyter_vram.sources.torch_profiler import ProfilerSession

CELL = "<cell of the test>"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    hooks = dict(nn.modules.module._global_forward_pre_hooks)
    trace = sys.gettrace()
    gc.collect()
    yield
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        assert frame.f_trace is None
        frame = frame.f_back
    assert not ProfilerSession.is_active()
    assert sys.gettrace() is trace
    assert session._current is None
    assert dict(nn.modules.module._global_forward_pre_hooks) == hooks
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(tool) for tool in TOOL_IDS] == [None] * 3


def run(text: str, scope: dict[str, Any], error: type[BaseException] | None = None) -> Recording:
    """Run a cell, recorded."""
    code = compile(text, CELL, "exec")
    cell = CellCode(text=text, execution_count=1, filenames=frozenset({CELL}))
    recorder = Recorder(cell=cell, namespace=scope)
    recorder.start()
    with pytest.raises(error) if error else nullcontext():
        exec(code, scope)
    return recorder.stop(error.__name__ if error else None)


def cpu(text: str, scope: dict[str, Any], error: type[BaseException] | None = None) -> ReportData:
    data = report_data(run(text, scope, error), "cpu")
    for by in ("category", "line", "module", "op"):
        assert sum(row.bytes for row in data.rows(by)) == data.peak_bytes
    return data


def rows(data: ReportData, by: Any) -> dict[str, int]:
    return {row.name: row.bytes for row in data.rows(by)}


@pytest.fixture
def scope() -> dict[str, Any]:
    return {"torch": torch, "nn": nn}


def test_bytes_of_plain_tensors_by_line(scope: dict[str, Any]) -> None:
    data = cpu("a = torch.zeros(1000)\nb = torch.zeros(500)\ndel a\nc = torch.ones(250)\n", scope)
    assert data.peak_bytes - data.start_bytes == 6_000
    assert data.retained_bytes == 3_000
    assert [(line.peak_bytes, line.kept_bytes) for line in data.source] == [
        (4_000, 0),
        (2_000, 2_000),
        (0, 0),
        (0, 1_000),
    ]
    assert {(kept.name, kept.bytes, kept.line) for kept in data.kept} == {
        ("b", 2_000, 2),
        ("c", 1_000, 4),
    }
    assert data.exact


def test_a_training_step_by_hand(scope: dict[str, Any]) -> None:
    exec(
        "model = nn.Sequential(nn.Linear(100, 50), nn.ReLU(), nn.Linear(50, 10))\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "x = torch.randn(32, 100)\n",
        scope,
    )
    data = cpu("loss = model(x).sum()\nloss.backward()\noptimizer.step()\n", scope)
    weights = 4 * sum(p.numel() for p in scope["model"].parameters())
    parts = rows(data, "category")
    assert parts["parameter"] == weights
    assert parts["gradient"] == weights
    assert parts["optimizer state"] == 2 * weights + 4 * 4  # and a step counter each
    assert parts["input"] == rows(data, "line")["before: input"] == 32 * 100 * 4
    assert data.retained_bytes == 3 * weights + 4 * 4 + 4  # and the loss
    assert [span.name for span in data.spans] == ["forward", "backward", "optimizer"]
    tree = {node.name: node for node in data.walk_modules()}
    assert tree["model"].class_name == "Sequential"
    assert tree["0"].bytes >= 4 * 4 * (100 * 50 + 50)


def test_backward_counts_for_the_forward_line_and_module(scope: dict[str, Any]) -> None:
    exec(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.big, self.small = nn.Linear(64, 4096), nn.Linear(4096, 8)\n"
        "    def forward(self, x):\n"
        "        return self.small(self.big(x))\n"
        "net = Net()\nx = torch.randn(16, 64)\n",
        scope,
    )
    recording = run("y = net(x)\nloss = y.sum()\nloss.backward()\n", scope)
    trace = next(trace for trace in recording.traces if trace.device == "cpu")
    backward = [context for context in trace.contexts if context.phase == "backward"]
    assert {context.lines[-1].number for context in backward if "Addmm" in context.op} == {1}
    paths = {context.module.path for context in backward if context.module}
    assert paths == {"net.big", "net.small"}


def test_a_checkpoint_is_computed_again(scope: dict[str, Any]) -> None:
    exec(
        "from torch.utils.checkpoint import checkpoint\n"
        "block = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))\n"
        "x = torch.randn(32, 64, requires_grad=True)\n",
        scope,
    )
    data = cpu("y = checkpoint(block, x, use_reentrant=False)\ny.sum().backward()\n", scope)
    assert "recompute" in {span.name for span in data.spans}
    assert rows(data, "line").get("(no line)", 0) == 0


def test_a_leaked_graph_is_named(scope: dict[str, Any]) -> None:
    exec("model = nn.Linear(100, 1000)\nlosses = []\nx = torch.randn(64, 100)", scope)
    cell = "for _ in range(2):\n    losses.append(model(x).relu().sum())\n"
    data = cpu(cell, scope)
    names = {kept.name: kept for kept in data.kept}
    assert names["losses[0]"].bytes >= 64 * 1000 * 4
    assert names["losses[0]"].hint
    assert names["losses[0]"].line == 2
    again = cpu("losses.clear()\n", scope)
    assert again.start_bytes == data.end_bytes
    assert again.start_bytes - again.end_bytes >= 2 * 64 * 1000 * 4
    assert rows(again, "category")["activation"] >= 2 * 64 * 1000 * 4


def test_what_was_there_before_is_seen_to_go(scope: dict[str, Any]) -> None:
    exec("a = torch.zeros(1000)\nb = torch.zeros(1000)\n", scope)
    data = cpu("del a\nc = torch.zeros(10)\n", scope)
    assert data.start_bytes - data.end_bytes == 4_000 - 40


def test_a_cell_that_fails_or_is_interrupted_has_its_report(scope: dict[str, Any]) -> None:
    data = cpu("a = torch.zeros(1000)\nraise KeyboardInterrupt\n", scope, KeyboardInterrupt)
    assert data.error == "KeyboardInterrupt"
    assert data.retained_bytes == 4_000


def test_no_tensor_and_no_module_is_kept_alive(scope: dict[str, Any]) -> None:
    exec("model = nn.Linear(4, 4)\nx = torch.ones(1, 4)\n", scope)
    recording = run("y = model(x)\n", scope)
    refs = [weakref.ref(scope.pop(name)) for name in ("model", "y", "x")]
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3
    assert recording.traces


def test_a_recording_within_a_recording(scope: dict[str, Any]) -> None:
    outer, inner = Recorder(namespace=scope), Recorder(namespace=scope)
    outer.start()
    scope["a"] = torch.zeros(1000)
    inner.start()
    scope["b"] = torch.zeros(500)
    del scope["a"]
    inside = report_data(inner.stop(), "cpu")
    scope["c"] = torch.zeros(250)
    whole = report_data(outer.stop(), "cpu")
    assert inside.retained_bytes == 2_000
    assert inside.peak_bytes - inside.start_bytes == 2_000
    assert whole.retained_bytes == 3_000
    assert whole.peak_bytes - whole.start_bytes == 6_000
    assert inside.start_bytes == whole.start_bytes + 4_000


def test_recordings_that_end_in_the_wrong_order(scope: dict[str, Any]) -> None:
    first, second = Recorder(namespace=scope), Recorder(namespace=scope)
    first.start()
    second.start()
    scope["a"] = torch.zeros(1000)
    assert report_data(first.stop(), "cpu").retained_bytes == 4_000
    scope["b"] = torch.zeros(1000)
    assert report_data(second.stop(), "cpu").retained_bytes == 8_000


def test_an_abandoned_recording_leaves_nothing(scope: dict[str, Any]) -> None:
    recorder = Recorder(namespace=scope)
    recorder.start()
    recorder.abandon()
    recorder.abandon()


def test_the_users_own_profiler_is_let_be(scope: dict[str, Any]) -> None:
    recorder = Recorder(namespace=scope)
    with torch.profiler.profile(), pytest.raises(RecordingError, match="is already on"):
        recorder.start()


def test_a_profiler_within_takes_over_and_is_named(scope: dict[str, Any]) -> None:
    text = (
        "a = torch.zeros(1000)\n"
        "with torch.profiler.profile(profile_memory=True) as profile:\n"
        "    b = torch.zeros(500)\n"
    )
    data = cpu(text, scope)
    assert not data.exact
    assert any("took over" in note for note in data.notes)
    assert data.retained_bytes == 6_000
    assert any("zeros" in event.name for event in scope["profile"].events())


def test_a_profiler_of_the_users_that_stays_on_is_theirs(scope: dict[str, Any]) -> None:
    scope["profile"] = torch.profiler.profile(profile_memory=True)
    data = cpu("profile.start()\na = torch.zeros(1000)\n", scope)
    b = torch.zeros(500)
    scope["profile"].stop()
    assert not data.exact
    assert sum("zeros" in event.name for event in scope["profile"].events()) == 2
    assert len(b) == 500


def test_a_session_that_nobody_could_end_is_ended_by_the_next(scope: dict[str, Any]) -> None:
    ProfilerSession().start()
    assert cpu("a = torch.zeros(10)\n", scope).retained_bytes == 40


def test_a_functions_variables_are_let_go(scope: dict[str, Any]) -> None:
    class Thing:
        pass

    thing: Thing | None = Thing()
    ref = weakref.ref(thing)
    recorder = Recorder(namespace={"thing": thing})
    recorder.start()
    recorder.stop()
    thing = None
    assert ref() is None
    assert recorder is not None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (session, "empty_line_ns"),
        (session.Session, "_begin_piece"),
        (session.Session, "_end_piece"),
        (ProfilerSession, "start"),
        (ProfilerSession, "stop"),
        (recorder_module, "find_holders"),
        (recorder_module, "walk"),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_interrupted_anywhere_the_next_recording_is_whole(
    owner: Any, name: str, before: bool, scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(owner, name)

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.undo()
        if not before:
            original(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)
    recorder = Recorder(namespace=scope)

    def record() -> None:
        recorder.start()
        recorder.stop()

    with pytest.raises(KeyboardInterrupt):
        record()
    recorder.abandon()
    data = cpu("a = torch.zeros(10)\n", scope)
    assert data.retained_bytes == 40
    assert rows(data, "line")["line 1"] == 40


def test_a_class_that_raises_when_looked_at_does_not_fail_the_cell(scope: dict[str, Any]) -> None:
    exec(
        "class Odd(nn.Linear):\n"
        "    def named_parameters(self, *arguments, **options):\n"
        "        raise LookupError\n"
        "odd = Odd(4, 4)\n",
        scope,
    )
    data = cpu("y = odd(torch.ones(1, 4))\n", scope)
    assert "y" in {kept.name for kept in data.kept}
    assert any("failed" in note for note in data.notes)


def test_a_functions_tensors_go_as_without_a_recording(scope: dict[str, Any]) -> None:
    def work() -> weakref.ref[Any]:
        recorder = Recorder(namespace=scope)
        recorder.start(sys._getframe())
        tensor = torch.zeros(10)
        recorder.stop()
        return weakref.ref(tensor)

    gc.disable()
    try:
        assert work()() is None
    finally:
        gc.enable()


def test_another_thread_that_records_is_refused(scope: dict[str, Any]) -> None:
    problems: list[Exception] = []

    def start() -> None:
        try:
            Recorder(namespace=scope).start()
        except RecordingError as error:
            problems.append(error)

    recorder = Recorder(namespace=scope)
    recorder.start()
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    recorder.stop()
    assert len(problems) == 1


def test_what_another_thread_allocates_is_told(scope: dict[str, Any]) -> None:
    scope["threading"] = threading
    text = (
        "def work():\n    global t\n    t = torch.zeros(1000)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    data = cpu(text, scope)
    assert data.end_bytes - data.start_bytes == 4_000
    assert not data.exact
    assert any("another thread" in note for note in data.notes)


def test_numpys_memory_counts_at_the_end_and_says_so(scope: dict[str, Any]) -> None:
    data = cpu("import numpy\nt = torch.from_numpy(numpy.zeros(1000))\n", scope)
    assert data.exact
    assert data.end_bytes == data.start_bytes + 8_000
    assert any("NumPy" in note for note in data.notes)
    assert cpu("u = 1\n", scope).start_bytes == data.end_bytes


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "torch_if_installed", lambda: None)
    with pytest.raises(TorchMissingError, match="pip install torch"):
        Recorder().start()


def test_a_compiled_function_stays_compiled(scope: dict[str, Any]) -> None:
    graphs: list[object] = []

    def backend(graph: Any, example: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def double(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).relu()

    scope["f"] = torch.compile(double, backend=backend)
    scope["x"] = torch.randn(8)
    scope["f"](scope["x"])
    assert len(graphs) == 1
    cpu("y = f(x)\n", scope)
    scope["f"](scope["x"])
    assert len(graphs) == 1


def test_odd_things_in_the_namespace_are_looked_at_without_running_them(
    scope: dict[str, Any],
) -> None:
    class Hostile:
        def __getattr__(self, name: str) -> object:
            raise RuntimeError("looked at")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        def __bool__(self) -> bool:
            raise RuntimeError("asked")

        __hash__ = object.__hash__

    class Liar:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError("what am I?")

        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            raise RuntimeError("what have I?")

    class OddDict(dict[str, object]):
        def items(self) -> Any:
            raise RuntimeError("items")

        def __iter__(self) -> Any:
            raise RuntimeError("iterated")

    class OddTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no function for you")

    loop: list[object] = []
    loop.append(loop)
    scope.update(
        hostile=Hostile(),
        loop=loop,
        holder=SimpleNamespace(t=torch.zeros(10)),
        sparse=torch.eye(3).to_sparse(),
        meta=torch.zeros(10, device="meta"),
        half_made=object.__new__(nn.Linear),
        nested={"a": [{"b": (torch.zeros(5),)}]},
        liar=Liar(),
        odd_dict=OddDict(a=torch.zeros(3)),
        odd_tensor=torch.zeros(3).as_subclass(OddTensor),
    )
    scope[("not", "a", "name")] = torch.zeros(2)  # type: ignore[index]
    data = cpu("z = torch.zeros(100)\n", scope)
    assert data.retained_bytes == 400
