"""Start JupyterLab on the quickstart notebook, with the panel open. Arguments go to JupyterLab."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OVERRIDES = Path(sys.prefix, "share/jupyter/lab/settings/overrides.json")


def main() -> None:
    # Only this virtual environment's JupyterLab opens the panel by itself.
    OVERRIDES.parent.mkdir(parents=True, exist_ok=True)
    OVERRIDES.write_text(
        json.dumps(
            {
                "jupyter-vram:panel": {"openOnStart": True},
                "@jupyterlab/apputils-extension:notification": {
                    "fetchNews": "false",
                    "checkForUpdates": False,
                },
            },
            indent=2,
        )
    )
    arguments = [
        "jupyter-lab",
        f"--ServerApp.root_dir={ROOT / 'notebooks'}",
        "--LabApp.default_url=/lab/tree/00-quickstart.ipynb",
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
        *sys.argv[1:],
    ]
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *arguments[1:]])


if __name__ == "__main__":
    main()
