"""Cells in a shell of IPython under one tool or another: ``recorded_cells.py COMMAND …``.

    slowdown WORK ROUNDS SUBJECT…   the same cell under each, in turn
    calls COUNT SUBJECT             a cell of so many calls of a function of its own, once
    extension                       %load_ext in a process that has no torch

Prints what it measured as JSON. A tool that can't work here has its reason instead of figures.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # The CPU profiler's own lines on stderr, of both it and us.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from IPython.utils.capture import capture_output  # noqa: E402

from benchmarks import measured  # noqa: E402

BARE = "bare"
VRAM = "%%vram"
RECORD = "jupyter_vram.record()"
MEM_TRACKER = "torch MemTracker"
PROFILER = "torch.profiler, memory and stacks"
MEMORY_PROFILER = "memory_profiler, by line"
MEMLAB = "pytorch_memlab, by line"

TRACKED = """
from torch.distributed._tools.mem_tracker import MemTracker
tracker = MemTracker()
tracker.track_external(*tracked)
"""
BY_FILE = """
import memory_profiler
exec(compile(open(work_file).read(), work_file, "exec"))
work = memory_profiler.LineProfiler()(work)
"""
"""It measures functions of files only, not of cells."""
BY_LINE = """
import pytorch_memlab
profiler = pytorch_memlab.LineProfiler(work)
"""
PROFILED = """torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, with_stack=True
)"""
NOTHING = "contextlib.nullcontext()"
SUBJECTS: dict[str, tuple[str, str]] = {
    # subject → (what comes first, the context manager around the work)
    BARE: ("", NOTHING),
    VRAM: ("", NOTHING),
    RECORD: ("import jupyter_vram", "jupyter_vram.record()"),
    MEM_TRACKER: (TRACKED, "tracker"),
    PROFILER: ("", PROFILED),
    MEMORY_PROFILER: (BY_FILE, NOTHING),
    MEMLAB: (BY_LINE, "profiler"),
}

SETUP = """
import contextlib, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
"""
GPT = "a GPT training step"
TINY = "4,000 tiny operations"
WORKS = {
    GPT: (
        """
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(
    n_layer=6, n_embd=256, n_head=8, vocab_size=5000, n_positions=256, bos_token_id=0,
    eos_token_id=0, use_cache=False,
))
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 5000, (2, 256))
tracked = model, optimizer
""",
        """
output = model(input_ids=tokens, labels=tokens)
loss = output.loss
loss.backward()
optimizer.step()
optimizer.zero_grad()
""",
    ),
    TINY: (
        "x = torch.ones(64)\ntracked = (x,)\n",
        """
for _ in range(1_000):
    y = x + 1
    y = y * x
    y = y - 2
    y = y.relu()
""",
    ),
}
CALLS = """
def clean(word):
    return word
for _ in range({count}):
    clean("a")
"""


def cell(subject: str, body: str) -> str:
    """`body` as a function of the cell, which is called under the tool."""
    before, manager = SUBJECTS[subject]
    lines = [
        definition(body),
        before,
        f"with {manager}:",
        "    began = time.perf_counter(), time.process_time()",
        "    work()",
        "    ended = time.perf_counter(), time.process_time()",
    ]
    return ("%%vram\n" if subject == VRAM else "") + "\n".join(lines) + "\n"


def definition(body: str) -> str:
    return "def work():\n" + textwrap.indent(body.strip(), "    ")


def work_times(shell: InteractiveShell) -> dict[str, float]:
    """Of the latest cell's work alone: seconds by the clock, and of the processor."""
    began, ended = shell.user_ns["began"], shell.user_ns["ended"]
    return {"work_s": ended[0] - began[0], "cpu_s": ended[1] - began[1]}


def new_shell() -> InteractiveShell:
    shell = InteractiveShell.instance()
    run(shell, "%load_ext jupyter_vram")
    return shell


def run(shell: InteractiveShell, text: str) -> float:
    """Seconds for all of it.

    Raises:
        Exception: what the cell raised.
    """
    with capture_output():
        began = time.perf_counter()
        result = shell.run_cell(text, store_history=True)  # type: ignore[no-untyped-call]
        took_s = time.perf_counter() - began
    result.raise_error()
    return took_s


def why_not(subject: str) -> str | None:
    """Why a tool can't measure here."""
    import torch

    if subject == MEMLAB and not torch.cuda.is_available():
        return "it reads CUDA's counters only: without a GPU it records nothing"
    return None


def slowdown(work: str, rounds: int, subjects: list[str]) -> dict[str, Any]:
    """Per round: each subject's seconds for the work itself and for all of the cell, and those of
    the bare cell before and after the round."""
    shell = new_shell()
    setup, body = WORKS[work]
    run(shell, SETUP + setup)
    folder = tempfile.TemporaryDirectory(prefix="jupyter-vram-work-")
    shell.user_ns["work_file"] = str(Path(folder.name, "work.py"))
    Path(shell.user_ns["work_file"]).write_text(definition(body))
    able = [subject for subject in subjects if why_not(subject) is None]
    times: dict[str, list[dict[str, float]]] = {subject: [] for subject in (BARE, *able)}
    for turn in range(-1, rounds):
        # Bare first, in the middle and last; the others change places from round to round.
        shift = turn % len(able)
        order = [*able[shift:], *able[:shift]]
        half = len(order) // 2
        for subject in (BARE, *order[:half], BARE, *order[half:], BARE):
            gc.collect()
            all_s = run(shell, cell(subject, body))
            if turn >= 0:  # what came before warmed up
                times[subject].append({"round": turn, "all_s": all_s, **work_times(shell)})
    folder.cleanup()
    reasons = {subject: why_not(subject) for subject in subjects if subject not in able}
    return {"times": times, "reasons": reasons}


def calls(count: int, subject: str) -> dict[str, Any]:
    """Seconds and bytes of a cell of `count` calls."""
    shell = new_shell()
    run(shell, SETUP)
    for few in (10, 1_000):
        run(shell, cell(subject, CALLS.format(count=few)))
    gc.collect()
    before = measured.resident_bytes()
    measured.reset_peak()
    all_s = run(shell, cell(subject, CALLS.format(count=count)))
    return {
        "all_s": all_s,
        **work_times(shell),
        "grown_bytes": measured.peak_resident_bytes() - before,
    }


def extension() -> dict[str, Any]:
    """Seconds of ``%load_ext``."""
    shell = InteractiveShell.instance()
    run(shell, "pass")
    took_s = run(shell, "%load_ext jupyter_vram")
    return {"load_s": took_s, "torch": "torch" in sys.modules}


def main() -> dict[str, Any]:
    command, *words = sys.argv[1:]
    if command == "slowdown":
        return slowdown(words[0], int(words[1]), words[2:])
    if command == "calls":
        return calls(int(words[0]), words[1])
    if command == "extension":
        return extension()
    raise SystemExit(__doc__)


if __name__ == "__main__":
    print(json.dumps(main()))
