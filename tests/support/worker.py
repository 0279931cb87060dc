"""A Python process of its own, driven step by step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

# Runs what it is sent, a JSON string a line, and answers with the JSON of `answer`.
_WORKER = """
import json, sys
names = {}
for line in sys.stdin:
    names["answer"] = None
    exec(json.loads(line), names)
    print(json.dumps(names["answer"]), flush=True)
"""


class Worker:
    """A Python process that runs what it is told, step by step."""

    def __init__(self, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, code: str) -> Any:
        """What `code` assigns to ``answer``. Fails if it raises."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process ended: see its traceback on stderr, after\n{code}"
        return json.loads(line)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
