"""The other tools that measure a cell's memory: beside our packages, in an environment that adds
theirs, so that ours stays as it is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PEERS = {"pytorch_memlab": "pytorch-memlab==0.3.2", "memory_profiler": "memory-profiler==0.61.0"}
"""What is imported → what is installed: the extra ``bench``."""
FOLDER = Path(__file__).parent / ".venv-record"
SITE = "import site; site.addsitedir({!r})\n"


def python() -> Path:
    """An interpreter that has our packages and the peers'; made now unless it is there.

    Raises:
        RuntimeError: pip could not install them.
    """
    if all(importlib.util.find_spec(name) for name in PEERS):
        return Path(sys.executable)  # installed by the extra
    interpreter = FOLDER / "bin" / "python"
    stamp = FOLDER / "installed.txt"
    wanted = [*PEERS.values(), sys.executable]
    if stamp.exists() and stamp.read_text() == "\n".join(wanted):
        return interpreter
    print("Installing the peers in benchmarks/.venv-record …", flush=True)
    venv.create(FOLDER, with_pip=True, clear=True)
    scheme = {"base": str(FOLDER), "platbase": str(FOLDER)}
    site = Path(sysconfig.get_path("purelib", vars=scheme))
    (site / "ours.pth").write_text(SITE.format(sysconfig.get_path("purelib")))
    done = subprocess.run(
        [
            *(str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check"),
            *PEERS.values(),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The peers could not be installed:\n{done.stderr.strip()[-2000:]}")
    stamp.write_text("\n".join(wanted))
    return interpreter
