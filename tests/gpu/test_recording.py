"""A recording by the allocator's history, against torch's own counters on a real GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

PRELUDE = """
import gc, pickle, sys
from pathlib import Path
import numpy as np
import torch
from jupyter_vram.recorders.cuda_history import CudaHistory
from jupyter_vram.recorders.snapshot_trace import traces_from_snapshot
from jupyter_vram.sources.snapshot_pickle import load_snapshot

torch.manual_seed(0)

def peak(trace):
    return trace.start_bytes + max(0, int(np.cumsum(trace.change_bytes).max(initial=0)))

def of(traces, device="cuda:0"):
    return next(trace for trace in traces if trace.device == device)

def model():
    layers = [torch.nn.Linear(1031, 1031) for _ in range(6)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(1031, 10)).cuda()

def step(net, optimizer):
    loss = net(torch.randn(777, 1031, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
"""


def in_new_process(code: str, folder: Path, **environment: str) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, str(folder)],
        env=env | environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("settings", ["", "expandable_segments:True", "max_split_size_mb:64"])
def test_the_peak_is_torchs_own_in_block_bytes(settings: str, tmp_path: Path) -> None:
    in_new_process(
        """
net = model()
optimizer = torch.optim.AdamW(net.parameters())
step(net, optimizer)
torch.cuda.reset_peak_memory_stats()
start = torch.cuda.memory_allocated()
history = CudaHistory()
history.start()
for _ in range(3):
    step(net, optimizer)
# Large sizes whose rest is too small to split off, freed before the end.
sizes = 19_500_001, 3_333_333, 70_000_001
odd = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
del odd
kept = torch.empty(12_345_678, dtype=torch.uint8, device="cuda")
trace = of(history.stop())
assert trace.start_bytes == start, (trace.start_bytes, start)
assert peak(trace) == torch.cuda.max_memory_allocated(), (
    peak(trace), torch.cuda.max_memory_allocated())
end = trace.start_bytes + int(trace.change_bytes.sum())
assert end == torch.cuda.memory_allocated(), (end, torch.cuda.memory_allocated())
assert not trace.truncated and trace.allocator.reserved_bytes == torch.cuda.memory_reserved()
assert trace.allocator.peak_reserved_bytes <= torch.cuda.max_memory_reserved()
assert not torch._C._cuda_isHistoryEnabled()
""",
        tmp_path,
        PYTORCH_CUDA_ALLOC_CONF=settings,
    )


def test_streams_and_retries(tmp_path: Path) -> None:
    in_new_process(
        """
torch.cuda.init()
free, total = torch.cuda.mem_get_info()
torch.cuda.set_per_process_memory_fraction(min(1.0, 600e6 / total))
torch.cuda.reset_peak_memory_stats()
history = CudaHistory()
history.start()
side = torch.cuda.Stream()
waits = torch.empty(40_000_000, dtype=torch.uint8, device="cuda")
with torch.cuda.stream(side):
    waits.add_(1)
waits.record_stream(side)
del waits
more = torch.empty(300_000_000, dtype=torch.uint8, device="cuda")
del more
try:
    torch.empty(2_000_000_000, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    pass
last = torch.empty(400_000_000, dtype=torch.uint8, device="cuda")
trace = of(history.stop())
assert peak(trace) == torch.cuda.max_memory_allocated(), (
    peak(trace), torch.cuda.max_memory_allocated())
assert trace.allocator.ooms == torch.cuda.memory_stats()["num_ooms"]
""",
        tmp_path,
    )


def test_a_users_history_goes_on_and_its_dump_is_read(tmp_path: Path) -> None:
    in_new_process(
        """
torch.cuda.init()
torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
net = model()
history = CudaHistory()
history.start()
torch.cuda.reset_peak_memory_stats()
start = torch.cuda.memory_allocated()
loss = net(torch.randn(777, 1031, device="cuda")).sum()
trace = of(history.stop())
assert torch._C._cuda_isHistoryEnabled()
assert trace.start_bytes == start
assert peak(trace) == torch.cuda.max_memory_allocated()
path = Path(sys.argv[1]) / "dump.pickle"
torch.cuda.memory._dump_snapshot(str(path))
dumped = of(traces_from_snapshot(load_snapshot(path)))
end = dumped.start_bytes + int(dumped.change_bytes.sum())
assert end == torch.cuda.memory_allocated()
torch.cuda.memory._record_memory_history(None)
""",
        tmp_path,
    )


def test_lines_are_those_of_the_code(tmp_path: Path) -> None:
    in_new_process(
        """
path = Path(sys.argv[1]) / "work.py"
path.write_text(
    "import torch\\nheld = []\\ndef go():\\n    held.append(torch.ones(1000, device='cuda'))\\n"
)
sys.path.insert(0, str(path.parent))
import work
torch.cuda.init()
history = CudaHistory()
history.start()
work.go()
trace = of(history.stop())
(context,) = {trace.contexts[row] for row in trace.blocks.context}
assert str(context.lines[-1]) == "work.py:4", context
""",
        tmp_path,
    )
