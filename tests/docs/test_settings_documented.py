"""Every setting stands in docs/settings.md with its default, and nothing else does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_vram.server.app import VramApp

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
SERVER, PANEL, KERNEL = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]


def documented(section: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", section, re.MULTILINE))


def test_server_settings() -> None:
    own = VramApp.class_own_traits(config=True)
    assert set(documented(SERVER)) == set(own)
    for name, text in documented(SERVER).items():
        default = own[name].default()
        assert text == (str(default).lower() if isinstance(default, bool) else str(default)), name


def test_panel_settings() -> None:
    schema = json.loads((ROOT / "labextension/schema/panel.json").read_text(encoding="utf-8"))
    defaults = {name: value["default"] for name, value in schema["properties"].items()}
    assert set(documented(PANEL)) == set(defaults)
    for name, text in documented(PANEL).items():
        expected = "none" if defaults[name] == [] else str(defaults[name])
        assert text.lower() == expected.lower(), name


def test_kernel_variables() -> None:
    used = {
        name
        for path in [*(ROOT / "jupyter_vram").rglob("*.py"), *(ROOT / "etc").rglob("*.py")]
        for name in re.findall(r"JUPYTER_VRAM_\w+", path.read_text(encoding="utf-8"))
    }
    assert set(re.findall(r"JUPYTER_VRAM_\w+", KERNEL)) == used


@pytest.mark.parametrize("name", sorted(VramApp.class_own_traits(config=True)))
def test_server_settings_have_help(name: str) -> None:
    assert VramApp.class_own_traits(config=True)[name].help


def test_help_all_lists_the_settings() -> None:
    command = [sys.executable, "-m", "jupyter_vram.server.app", "--help-all"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert [name for name in documented(SERVER) if f"--VramApp.{name}" not in shown] == []
