"""Lines and modules as they run, by the tracer of this Python; nothing is left behind."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from jupyter_vram.model.trace import NONE
from jupyter_vram.recorders.cell_monitor import TOOL_IDS
from jupyter_vram.recorders.places import MAX_DEPTH, Places
from jupyter_vram.recorders.session import empty_line_ns, tracer_of

CELL, EARLIER = "<cell>", "<earlier>"
LABELS = {CELL: "", EARLIER: "In [1]"}


class Module:
    """Is called as torch's modules are."""

    def __init__(self, *children: Module) -> None:
        self.children = children

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_impl(*args, **kwargs)

    def call_impl(self, *args: Any, **kwargs: Any) -> Any:
        for child in self.children:
            child(*args)
        return kwargs.get("then", int)()


def step(number: int) -> int:
    return number


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = sys.gettrace()
    yield
    assert sys.gettrace() is before
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(tool) for tool in TOOL_IDS] == [None] * 3


def run(
    text: str,
    scope: dict[str, Any] | None = None,
    *,
    earlier: str = "",
    places: Places | None = None,
) -> Places:
    """Run a cell under the tracer."""
    scope = {} if scope is None else scope
    exec(compile(earlier, EARLIER, "exec"), scope)
    code = compile(text, CELL, "exec")
    places = Places(LABELS.__contains__) if places is None else places
    tracer = tracer_of(places)
    assert tracer.start()
    try:
        exec(code, scope)
    finally:
        tracer.stop()
    return places


def stack(places: Places, row: int) -> list[str]:
    found: list[str] = []
    while row != NONE:
        row, filename, number = places.line_table[row]
        label = LABELS[filename]
        found.insert(0, f"{label}:{number}" if label else str(number))
    return found


def seen(places: Places) -> list[list[str]]:
    return [stack(places, row) for row in places.lines.ids]


def test_lines_in_the_order_in_which_they_run() -> None:
    places = run("a = 1\nb = 2\nif a:\n    c = 3\n")
    assert seen(places) == [["1"], ["2"], ["3"], ["4"], []]
    assert list(places.lines.times) == sorted(places.lines.times)


def test_a_function_of_an_earlier_cell_stands_within_its_callers_line() -> None:
    places = run("a = 1\nb = f(a)\n", earlier="def f(x):\n    y = x\n    return y\n")
    assert seen(places) == [["1"], ["2"], ["2", "In [1]:2"], ["2", "In [1]:3"], ["2"], []]


def test_code_of_libraries_is_not_seen() -> None:
    places = run("import json\nb = json.loads(json.dumps([1]))\n")
    assert seen(places) == [["1"], ["2"], []]


def test_after_an_exception_the_line_is_its_callers() -> None:
    places = run("def f():\n    1 / 0\ntry:\n    f()\nexcept ZeroDivisionError:\n    a = 1\n")
    assert ["4", "2"] in seen(places)
    assert seen(places)[seen(places).index(["4", "2"]) + 1] == ["4"]
    assert seen(places)[-2:] == [["6"], []]


def test_an_exception_leaves_nothing_on_the_stack() -> None:
    places = Places(LABELS.__contains__)
    with pytest.raises(ZeroDivisionError):
        run("def f():\n    1 / 0\nf()\n", places=places)
    assert places.callers == []
    assert seen(places)[-1] == []


def test_generators_go_and_come_back() -> None:
    places = run("def g():\n    yield 1\n    yield 2\nfor x in g():\n    y = x\n")
    assert ["4", "2"] in seen(places)
    assert ["4", "3"] in seen(places)
    assert places.callers == []


def test_coroutines_that_take_turns() -> None:
    scope = {"asyncio": asyncio}
    text = (
        "async def f():\n    await asyncio.sleep(0)\n    a = 1\n"
        "async def both():\n    await asyncio.gather(f(), f())\n"
        "asyncio.run(both())\n"
    )
    places = run(text, scope)
    assert any(found[-1] == "3" for found in seen(places) if found)
    assert places.callers == []


def test_a_deep_recursion_counts_for_the_line_that_calls() -> None:
    places = run("def f(n):\n    return n and f(n - 1)\nf(100)\na = 1\n")
    assert max(map(len, seen(places))) == MAX_DEPTH
    assert seen(places)[-2:] == [["4"], []]


def test_other_threads_are_not_traced() -> None:
    scope = {"threading": threading}
    text = "def f():\n    a = 1\nt = threading.Thread(target=f)\nt.start()\nt.join()\n"
    assert all("2" not in found for found in seen(run(text, scope)))


def test_frames_that_run_already() -> None:
    places = Places(LABELS.__contains__)
    scope: dict[str, Any] = {"sys": sys, "tracer": tracer_of(places)}
    text = "tracer.start()\ntracer.adopt(sys._getframe())\na = 1\nb = 2\ntracer.stop()\nc = 3\n"
    exec(compile(text, CELL, "exec"), scope)
    assert seen(places) == [["2"], ["3"], ["4"], ["5"]]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring has room for others")
def test_a_debugger_that_traces_is_let_be() -> None:
    def debugger(frame: FrameType, event: str, arg: object) -> None: ...

    places = Places(LABELS.__contains__)
    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        assert not tracer_of(places).start()
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)


def test_millions_of_trivial_calls_take_little_memory() -> None:
    places = Places(LABELS.__contains__)
    places.lines.calibrate(empty_line_ns())
    run("def f(i):\n    return i\nfor i in range(150_000):\n    f(i)\na = 1\n", places=places)
    # Four entries a turn, were all of them kept.
    assert len(places.lines.times) < 450_000
    assert seen(places)[-2:] == [["5"], []]


# --- modules -------------------------------------------------------------------------------------


def module_places(on_root: Callable[..., None] | None = None) -> Places:
    return Places(LABELS.__contains__, module_call=Module.call_impl.__code__, on_root=on_root)


def test_modules_nest() -> None:
    inner, roots = Module(), []
    outer = Module(inner, Module())
    places = module_places(lambda *called: roots.append(called))
    run("outer(5, then=str)\n", {"outer": outer}, places=places)
    assert list(places.modules.ids) == [0, 1, 0, 2, 0, NONE]
    assert places.module_table[1] == (0, id(inner), "Module")
    assert roots == [(outer, (5,), {"then": str})]
    assert len(places.root_spans) == 1


def test_a_module_that_fails_is_left() -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    places = module_places()
    with pytest.raises(KeyboardInterrupt):
        run("outer(then=fail)\n", {"outer": Module(), "fail": fail}, places=places)
    assert places.modules.ids[-1] == NONE
    assert len(places.root_spans) == 1


def test_watched_code_is_shown_before_and_after() -> None:
    shown: list[tuple[str, dict[str, Any]]] = []

    def show(frame: FrameType, event: str) -> None:
        shown.append((event, dict(frame.f_locals)))

    watched: dict[CodeType, Any] = {step.__code__: show}
    run("step(7)\nstep(8)\n", {"step": step}, places=Places(LABELS.__contains__, watched=watched))
    assert shown == [
        ("call", {"number": 7}),
        ("return", {"number": 7}),
        ("call", {"number": 8}),
        ("return", {"number": 8}),
    ]
