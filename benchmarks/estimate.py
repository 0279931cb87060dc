"""How right the dry run is, and how fast: ``python benchmarks/estimate.py --help``.

Prints a table, and writes ``benchmarks/results/estimate-<machine>.json``. What each figure means is
in ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import warnings
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.command import Command, Measured  # noqa: E402
from benchmarks.results import Result  # noqa: E402

WARM = """
import time, resource, torch, jupyter_vram
import transformers
transformers.logging.set_verbosity_error()

def gpt2_small():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 50257, (8, 512), device="cuda")
    for _ in range(2):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

def llama_7b():
    config = transformers.LlamaConfig(use_cache=False)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.LlamaForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 32000, (1, 2048), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()

transformers.GPT2LMHeadModel, transformers.LlamaForCausalLM
times = []
for function in (gpt2_small,) * 6 + (llama_7b,) * 2:
    began = time.perf_counter()
    report = jupyter_vram.estimate(function)
    times.append(time.perf_counter() - began)
    peak = report.peak_bytes
print(*times, peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def accuracy(folder: Path, arguments: argparse.Namespace) -> Measured:
    """The tensors' peak of some twenty workloads on the CPU: dry run against the real run."""
    import torch
    import transformers

    import jupyter_vram
    from benchmarks.estimate_workloads import WORKLOADS

    del folder
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)
    found, errors = [], {}
    for workload in WORKLOADS[:6] if arguments.quick else WORKLOADS:
        gc.collect()
        with jupyter_vram.record() as recording:
            workload("cpu")
        gc.collect()
        real = recording.report
        dry = jupyter_vram.estimate(workload, args=("cpu",), device="cpu")
        expected, predicted = (one.peak_bytes - one.start_bytes for one in (real, dry))
        error = 100 * (predicted / expected - 1)
        errors[workload.__name__] = error
        found.append(
            Result(
                part="accuracy",
                name=workload.__name__,
                value=error,
                unit="%",
                note=f"{predicted / 2**20:.2f} for {expected / 2**20:.2f} MiB",
            )
        )
    sizes = [abs(error) for error in errors.values()]
    summary = [
        Result(part="accuracy", name="median error", value=median(sizes), unit="%", goal=0.5),
        Result(part="accuracy", name="worst error", value=max(sizes), unit="%", goal=3.0),
    ]
    return [*summary, *found], errors


def speed(folder: Path, arguments: argparse.Namespace) -> Measured:
    """Two steps of GPT-2 small, and one of a model of 7 billion parameters, from call to report."""
    del arguments
    result = subprocess.run(
        [sys.executable, "-c", WARM],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    *times, peak, resident = (float(word) for word in result.stdout.split())
    first, warm, large = times[0], times[1:6], times[6:]
    return [
        Result(
            part="speed",
            name="GPT-2 small, two steps, warm",
            value=median(warm),
            low=min(warm),
            high=max(warm),
            unit="s",
            goal=1.0,
        ),
        Result(part="speed", name="the first of a process", value=first, unit="s", goal=4.0),
        Result(
            part="speed",
            name="7 billion parameters, one step",
            value=min(large),
            unit="s",
            goal=5.0,
            note=f"predicts {peak / 2**30:.1f} GiB",
        ),
        Result(
            part="speed",
            name="resident memory of the child",
            value=resident / 2**30,
            unit="GiB",
            goal=1.0,
        ),
    ], times


def tables(folder: Path, arguments: argparse.Namespace) -> Measured:
    """BERT-base, ResNet-50 and ViT-B/16 by batch, and BERT by batch and length: predicted peaks."""
    from benchmarks import estimate_tables

    del folder
    return estimate_tables.measure(quick=arguments.quick)


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


COMMAND = Command(
    "estimate",
    "Measures the dry run: its peaks against real ones, and its time.",
    {part.__name__: part for part in (accuracy, speed, tables)},
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
