"""jupyterlab-nvdashboard, installed in an environment of its own so that ours stays as it is."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from benchmarks.hardware import version

VERSION = "0.15.0"
FOLDER = Path(__file__).parent / ".venv-peer"
SAME = ("jupyter_server", "jupyterlab", "tornado", "nvidia-ml-py")
"""The same versions on both sides, so that only the extensions differ."""


def python() -> Path:
    """The interpreter of the peer's environment, which is made now unless it is there.

    Raises:
        RuntimeError: pip could not install it.
    """
    interpreter = FOLDER / "bin" / "python"
    wanted = [
        f"jupyterlab-nvdashboard=={VERSION}",
        *(f"{name}=={found}" for name in SAME if (found := version(name))),
    ]
    stamp = FOLDER / "installed.txt"
    if stamp.exists() and stamp.read_text() == "\n".join(wanted):
        return interpreter
    print("Installing the peer in benchmarks/.venv-peer …", flush=True)
    venv.create(FOLDER, with_pip=True, clear=True)
    done = subprocess.run(
        [str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{wanted[0]} could not be installed:\n{done.stderr.strip()[-2000:]}")
    stamp.write_text("\n".join(wanted))
    return interpreter
