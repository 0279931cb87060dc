"""The live view in real kernels, to which the test answers as a page does, or does not."""

from __future__ import annotations

import contextlib
import html
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_vram.errors import LiveError
from jupyter_vram.kernel import live as live_module
from jupyter_vram.kernel import live_beat
from jupyter_vram.kernel.live import NO_WIDGETS, LiveView, live
from jupyter_vram.kernel.live_beat import STOPPED, THREAD_NAME, UNSEEN, Beat
from jupyter_vram.kernel.live_picture import Picture
from support.fake_nvml import FakeNvml
from support.kernels import Kernel, Kernels, until

pytest.importorskip("ipywidgets")

THREADS = f"""[t.name for t in __import__("threading").enumerate()].count({THREAD_NAME!r})"""
SHOW = "from jupyter_vram.kernel.live import live\nlive(interval=0.1)"
IMPATIENT = """\
from jupyter_vram.kernel import live_picture
live_picture.PING_S, live_picture.PATIENCE_S = 0.2, 1.0"""


def threads() -> int:
    return [thread.name for thread in threading.enumerate()].count(THREAD_NAME)


class Page:
    """A front end as far as it matters: keeps the widgets' state, and answers what it is asked."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.answers = True
        self.values: list[str] = []
        self.asked = 0
        self._models: dict[str, dict[str, Any]] = {}

    def look(self, seconds: float) -> None:
        """Take in what comes."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                self._take(self._kernel.client.get_iopub_msg(timeout=0.1))

    def until_drawn(self, text: str) -> str:
        """The first picture that holds a text."""

        def drawn() -> str | None:
            self.look(0.1)
            return next((value for value in self.values if text in value), None)

        value = until(drawn, f"a picture with {text!r}")
        assert isinstance(value, str)
        return value

    def _take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open":
            self._models[content["comm_id"]] = content["data"]["state"]
        elif message["msg_type"] == "comm_msg":
            state = content["data"].get("state", {})
            model = self._models[content["comm_id"]]
            if state.get("playing") and model["_model_name"] == "PlayModel":
                self.asked += 1
                if self.answers:
                    self._answer(content["comm_id"], self.asked)
            if "value" in state and model["_model_name"] == "HTMLModel":
                self.values.append(html.unescape(state["value"]))

    def _answer(self, comm_id: str, value: int) -> None:
        data = {"method": "update", "state": {"value": value}, "buffer_paths": []}
        client = self._kernel.client
        client.shell_channel.send(
            client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        )


def output(kernel: Kernel, code: str) -> dict[str, Any]:
    """What a cell shows."""
    shown = [m for m in kernel.run(code) if m["msg_type"] in ("execute_result", "display_data")]
    data = shown[-1]["content"]["data"]
    assert isinstance(data, dict)
    return data


def resident_mib(text: str) -> float:
    found = re.search(r"resident memory: ([\d.]+) MiB", text)
    assert found is not None, text
    return float(found[1])


def test_it_moves_while_another_cell_runs(kernel: Kernel) -> None:
    # The page is there before the view, as comm_open tells what a widget is.
    request = kernel.send(SHOW)
    page = Page(kernel)
    page.until_drawn("resident memory")
    assert kernel.wait(request)["status"] == "ok"
    request = kernel.send(
        "import pathlib\nheld = bytearray(b'x') * (300 << 20)\n"
        "while not pathlib.Path('stop').exists():\n    sum(range(1000))"
    )
    before = resident_mib(page.values[-1])

    def grown() -> bool:
        page.look(0.2)
        return resident_mib(page.values[-1]) > before + 250

    until(grown, "the memory that the running cell takes")
    count = len(page.values)
    page.look(1.0)
    assert len(page.values) >= count + 4
    (Path(kernel.path).parents[2] / "stop").touch()
    assert kernel.wait(request)["status"] == "ok"


def test_it_stops_when_no_page_answers_and_says_so(kernel: Kernel) -> None:
    kernel.run(IMPATIENT)
    kernel.send(SHOW)
    page = Page(kernel)
    page.look(3.0)
    assert page.asked > 5
    assert kernel.value(THREADS) == 1
    page.answers = False
    page.until_drawn(UNSEEN)
    until(lambda: kernel.value(THREADS) == 0, "the thread's end")
    assert "polyline" in page.values[-1]


def test_silence_while_a_cell_runs_does_not_count(kernel: Kernel) -> None:
    kernel.run(IMPATIENT)
    kernel.run(SHOW + "\nimport time; time.sleep(2.5)")
    assert kernel.value(THREADS) == 1
    kernel.run("time.sleep(2.5)")
    assert kernel.value(THREADS) == 1
    until(lambda: kernel.value(THREADS) == 0, "the thread's end")


def test_one_thread_however_many_views(kernel: Kernel) -> None:
    kernel.run("from jupyter_vram.kernel.live import live, stop\nviews = [live(), live(), live()]")
    assert kernel.value(THREADS) == 1
    kernel.run("views[0].close(); views[0].close(); views[1].close()")
    assert kernel.value(THREADS) == 1
    kernel.run("views[2].close()")
    until(lambda: kernel.value(THREADS) == 0, "the thread's end")
    kernel.run("again = live()")
    assert kernel.value(THREADS) == 1
    kernel.run("stop(); stop()")
    assert kernel.value(THREADS) == 0


def test_unloading_stops_it(kernel: Kernel) -> None:
    kernel.run(SHOW)
    assert kernel.value(THREADS) == 1
    listeners = "len(get_ipython().events.callbacks['pre_run_cell'])"
    before = kernel.value(listeners)
    kernel.run("%unload_ext jupyter_vram")
    assert kernel.value(THREADS) == 0
    assert kernel.value(listeners) < before


def test_a_kernel_with_a_view_shuts_down_at_once(kernel: Kernel) -> None:
    kernel.run(SHOW)
    began = time.monotonic()
    kernel.shut_down()
    assert time.monotonic() - began < 5


def test_forking_leaves_the_parents_view_alone(kernel: Kernel) -> None:
    kernel.run(SHOW)
    kernel.run(
        "import os\npid = os.fork()\n"
        "if pid == 0:\n"
        "    from jupyter_vram.kernel import live as module\n"
        "    module.stop()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0"
    )
    assert kernel.value(THREADS) == 1


def test_what_a_front_end_without_widgets_shows(kernel: Kernel) -> None:
    data = output(kernel, SHOW)
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "resident memory" in data["text/plain"]


def test_the_figures_of_a_gpu(kernels: Kernels, fake_nvml: FakeNvml) -> None:
    pytest.importorskip("torch")
    kernel = kernels.start(FAKE_NVML_STATE_FOR_KERNELS=str(fake_nvml.path), **fake_nvml.env())
    kernel.run(
        "import os\nfrom support.cuda_standin import install\n"
        'gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])'
    )
    kernel.send(SHOW)
    page = Page(kernel)
    page.until_drawn("cuda:0: allocated 0 B")
    kernel.send("gpu.allocate('x', 2**30)")
    page.until_drawn("cuda:0: allocated 1.00 GiB · reserved 1.00 GiB")


# --- in this process -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    live_module.stop()
    assert threads() == 0


@pytest.mark.parametrize(
    "wrong", [{"seconds": 1}, {"seconds": 1e9}, {"interval": 0}, {"interval": float("nan")}]
)
def test_figures_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(LiveError, match="A live view"):
        live(**wrong)
    assert threads() == 0


def test_without_ipywidgets_the_present_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    view = live()
    bundle = view._repr_mimebundle_()
    assert NO_WIDGETS in bundle["text/plain"]
    assert NO_WIDGETS in bundle["text/html"]
    view.close()
    assert threads() == 0


def test_trouble_ends_it_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: float) -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(live_beat, "read_sample", broken)
    live()
    until(lambda: threads() == 0, "the thread's end")
    assert [record.getMessage() for record in caplog.records] == [
        "The live view of memory has stopped."
    ]


def test_closing_says_so_beneath_the_last_picture() -> None:
    beat = Beat()
    picture = Picture(60.0, 0.1)
    beat.add(picture)
    until(lambda: "polyline" in picture._figures.value, "a picture")
    beat.remove(picture)
    assert STOPPED in picture._figures.value
    assert "polyline" in picture._figures.value
    beat.stop()


def test_it_is_a_view() -> None:
    assert isinstance(live(seconds=5, interval=60), LiveView)
