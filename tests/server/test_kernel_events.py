"""The second way to load the kernel's side: by request, leaving no trace."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_vram.analysis.kernel_reasons import NO_PACKAGE
from jupyter_vram.server.kernel_events import LOAD
from support.streams import until

pytestmark = pytest.mark.timeout(240)

BARE = (
    # A kernel that does not find the environment's startup files, as after `pip install --user`.
    "from IPython.core import application, shellapp;"
    "application.ENV_CONFIG_DIRS[:] = []; shellapp.ENV_CONFIG_DIRS[:] = [];"
    "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
)
QUICK = [{"load_kernels_after_s": 0.2}]
ALL_NAMES = (
    "print(sorted(n for n in globals() if not n.startswith('_i')), len(In), len(Out),"
    " get_ipython().execution_count)"
)


@pytest.fixture
def bare(jp_env_jupyter_path: Path) -> dict[str, str]:
    """The kernel to start: one without our startup file."""
    folder = jp_env_jupyter_path / "kernels" / "bare"
    folder.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-c", BARE, "-f", "{connection_file}"],
        "display_name": "Bare",
        "language": "python",
    }
    (folder / "kernel.json").write_text(json.dumps(spec))
    return {"name": "bare"}


@pytest.fixture
def events(jp_serverapp: Any) -> Any:
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyter_vram"]
    return app.kernel_events


@pytest.mark.parametrize("vram_config", QUICK)
async def test_a_kernel_that_does_not_report_is_asked_to_and_has_no_trace_of_it(
    bare: dict[str, str], start: Any, kernel_when: Any, events: Any
) -> None:
    untouched = await start("a.ipynb", kernel=bare)
    names = await untouched.run(ALL_NAMES)
    await kernel_when(untouched, lambda v: v["torch_state"] == "not_imported")
    await until(lambda: not events._tasks)
    again = await untouched.run(ALL_NAMES)
    assert again.split("]")[0] == names.split("]")[0]
    # One more cell has run, and no more: ours left no input, output or number.
    before, after = (list(map(int, text.split("]")[1].split())) for text in (names, again))
    assert after == [before[0] + 1, before[1], before[2] + 1]


@pytest.mark.parametrize("vram_config", QUICK)
async def test_after_a_restart_it_is_asked_again(
    bare: dict[str, str], start: Any, kernel_when: Any
) -> None:
    notebook = await start("a.ipynb", kernel=bare)
    await notebook.run("")
    before = await kernel_when(notebook, lambda v: v["torch_state"])
    await notebook.call("api", "kernels", notebook.kernel_id, "restart", method="POST")
    await notebook.run("")
    after = await kernel_when(
        notebook, lambda v: v["torch_state"] and v["pid"] != before["pid"] and not v["stale"]
    )
    assert after["reason"] != NO_PACKAGE


@pytest.mark.parametrize("vram_config", QUICK)
async def test_one_who_turned_it_off_is_not_overruled(
    bare: dict[str, str],
    start: Any,
    kernel_when: Any,
    events: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUPYTER_VRAM_KERNEL", "0")
    notebook = await start("a.ipynb", kernel=bare)
    await notebook.run("")
    await until(lambda: not events._tasks)
    assert (await kernel_when(notebook))["reason"] == NO_PACKAGE
    loaded = "print('jupyter_vram' in get_ipython().extension_manager.loaded)"
    assert (await notebook.run(loaded)).strip() == "False"


@pytest.mark.parametrize("vram_config", [{"load_kernels": False}])
async def test_the_setting_turns_it_off(
    bare: dict[str, str], start: Any, kernel_when: Any, events: Any
) -> None:
    notebook = await start("a.ipynb", kernel=bare)
    await notebook.run("")
    await until(lambda: not events._tasks)
    assert (await kernel_when(notebook))["reason"] == NO_PACKAGE


@pytest.mark.parametrize("vram_config", [{"load_kernels_after_s": 5}])
async def test_one_that_reports_by_itself_is_left_alone(
    bare: dict[str, str],
    start: Any,
    kernel_when: Any,
    events: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def load(kernel_id: str) -> None:
        asked.append(kernel_id)

    monkeypatch.setattr(events, "_load", load)
    notebook = await start("a.ipynb", kernel=bare)
    await notebook.run("%load_ext jupyter_vram")
    await kernel_when(notebook, lambda v: v["torch_state"])
    await until(lambda: not events._tasks, timeout_s=60)
    assert not asked


async def test_a_kernel_without_the_package_does_nothing(
    bare: dict[str, str], start: Any, events: Any
) -> None:
    notebook = await start("a.ipynb", kernel=bare)
    hidden = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'jupyter_vram'"
        " else find(name, package)\n"
    )
    assert (await notebook.run(hidden + f"print({LOAD!s})")).strip() == "False"
