"""The extension as an application: settings, help, what it loads, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest
from traitlets import TraitError

from jupyter_vram.server.app import VramApp
from jupyter_vram.server.service import VramService
from support.fake_nvml import FakeNvml

SETTINGS = VramApp.class_own_traits(config=True)


def test_every_setting_is_in_the_help() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "jupyter_vram.server.app", "--help-all"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert len(SETTINGS) >= 8
    for name, setting in SETTINGS.items():
        assert f"--VramApp.{name}=" in result.stdout
        assert setting.help.endswith(".")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interval_s", 0),
        ("min_interval_s", 0.01),
        ("background_interval_s", -1),
        ("driver_patience_s", 5),
        ("process_interval_s", float("nan")),
        ("show_host", "sometimes"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(TraitError):
        VramApp(**{name: value})


def test_the_server_side_imports_neither_torch_nor_ipython() -> None:
    code = (
        "import sys, json\n"
        "import jupyter_vram.server.app\n"
        "print(json.dumps([m for m in ('torch', 'IPython', 'ipykernel', 'numpy')"
        " if m in sys.modules]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(result.stdout) == []


@pytest.mark.parametrize("vram_config", [{"interval_s": 0.5, "show_host": "always"}])
async def test_settings_reach_the_service(get: Any, service: VramService) -> None:
    assert service.interval_s == 0.5
    kinds = [device["kind"] for device in (await get("snapshot"))["devices"]]
    assert kinds == ["cuda", "host"]


async def test_stopping_the_server_stops_measuring(
    get: Any, jp_serverapp: Any, loaded_nvml: FakeNvml
) -> None:
    await get("snapshot")
    await jp_serverapp.extension_manager.stop_all_extensions()
    ours = [t.name for t in threading.enumerate() if t.name.startswith("jupyter-vram")]
    assert ours == []
    calls = loaded_nvml.calls("nvmlShutdown")
    assert calls >= 1


async def test_stopping_does_not_wait_for_a_driver_that_hangs(
    get: Any, jp_serverapp: Any, loaded_nvml: FakeNvml, service: VramService
) -> None:
    await get("snapshot")
    loaded_nvml.hang(60)
    service.poller.request()
    await jp_serverapp.extension_manager.stop_all_extensions()  # the test's timeout is 300 s
    loaded_nvml.restore()
