"""The reports behind ``tests/reports/*.json``, with which both ends of the mime type are tested.

``python tests/reports/examples.py`` writes the files anew after the format changed.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from jupyter_vram.model.estimate import (
    Assumption,
    Axis,
    DevicePart,
    Estimate,
    GpuFit,
    Grid,
    Largest,
    Verdict,
)
from jupyter_vram.model.report_data import (
    Allocator,
    Change,
    Comparison,
    Curve,
    DevicePeak,
    Kept,
    ModuleNode,
    ReportData,
    Row,
    Series,
    SourceLine,
    Span,
)
from jupyter_vram.model.report_json import to_json

FOLDER = Path(__file__).parent
MIB = 1 << 20

SOURCE = """\
batch = next(batches)
out = model(**batch)
loss = out.loss
loss.backward()
optimizer.step(); optimizer.zero_grad()
history.append(loss)"""


def estimate() -> ReportData:
    """A dry run of a training step, on an RTX 4090."""
    parts = (
        DevicePart("tensors", 8_202 * MIB, 8_202 * MIB, 8_202 * MIB, "The tensors' own peak."),
        DevicePart("rounding", 21 * MIB, 21 * MIB, 21 * MIB, "Blocks of 512 bytes."),
        DevicePart("library workspaces", 8 * MIB, 8 * MIB, 8 * MIB, "cuBLAS's workspace."),
        DevicePart("reserved but free", 709 * MIB, 354 * MIB, 1_122 * MIB, "The rules, replayed."),
        DevicePart("CUDA context", 426 * MIB, 274 * MIB, 636 * MIB, "Measured by others."),
    )
    gpus = (("RTX 4090", 24_564), ("RTX 3060 Laptop", 6_144), ("RTX 3080", 10_240))
    verdicts: tuple[Verdict, ...] = ("fits", "does not fit", "tight")
    largest = (
        (Largest("batch_size", 24), Largest("seq_len", 1_024, at_least=True)),
        (Largest("batch_size", 4, approximate=True), Largest("seq_len", None)),
        (Largest("batch_size", 8, approximate=True),),
    )
    fits = tuple(
        GpuFit(name, total * MIB, total * MIB * 39 // 40, verdict, sizes)
        for (name, total), verdict, sizes in zip(gpus, verdicts, largest, strict=True)
    )
    grid = Grid(
        (Axis("batch_size", (8, 16, 32)), Axis("seq_len", (256, 512))),
        (5_584 * MIB, 9_366 * MIB, 9_366 * MIB, 17_100 * MIB, 17_100 * MIB, None),
        (4_813 * MIB, 8_202 * MIB, 8_202 * MIB, 15_200 * MIB, 15_200 * MIB, None),
        ("batch_size=32, seq_len=512: The dry run was given up after 120 s.",),
    )
    assumptions = (
        Assumption(
            "line 7: a loop over 10,000 batches was ended after 4, which needed the same.",
            "No effect, if the others are like those.",
        ),
    )
    return dataclasses.replace(
        gpu(),
        recorder="dry_run",
        bytes_kind="tensor",
        device_name=None,
        name=None,
        estimate=Estimate(
            gpu="RTX 4090",
            total_bytes=24_564 * MIB,
            peak_device_bytes=sum(part.bytes for part in parts),
            low_bytes=sum(part.low_bytes for part in parts),
            high_bytes=sum(part.high_bytes for part in parts),
            parts=parts,
            fits=fits,
            assumptions=assumptions,
            grid=grid,
            emulated_s=0.93,
        ),
    )


def gpu() -> ReportData:
    """A training step of a language model on one GPU, which leaks a graph."""
    times = tuple(round(0.02 * step, 2) for step in range(93))
    rising = [min(1.0, max(0.0, (step - 6) / 40)) for step in range(93)]
    falling = [1.0 if step <= 46 else max(0.0, 1 - (step - 46) / 24) for step in range(93)]
    activation = tuple(
        int(4_885 * MIB * up * down) + (1_239 * MIB if step > 70 else 0)
        for step, (up, down) in enumerate(zip(rising, falling, strict=True))
    )
    gradient = tuple(
        0 if step < 46 or step > 80 else int(973 * MIB * min(1.0, (step - 46) / 24))
        for step in range(93)
    )
    state = tuple([1_946 * MIB] * 93)
    temporary = tuple([0] * 46 + [16 * MIB] + [0] * 46)
    parameter = tuple([973 * MIB] * 93)
    series = (
        Series("parameter", parameter),
        Series("gradient", gradient),
        Series("optimizer state", state),
        Series("activation", activation),
        Series("temporary", temporary),
    )
    totals = [sum(values) for values in zip(*(one.bytes for one in series), strict=True)]
    peak = max(totals)
    at = totals.index(peak)
    parts = {one.name: one.bytes[at] for one in series}
    lines = {2: 3_512 * MIB, 3: 737 * MIB, 4: 0}
    lines[4] = parts["activation"] + parts["temporary"] + parts["gradient"] - sum(lines.values())
    blocks = tuple(
        ModuleNode(
            name,
            kind,
            12 * size * MIB,
            children=(ModuleNode("c_proj", "Conv1D", 4 * size * MIB),),
        )
        for name, kind, size in (("mlp", "GPT2MLP", 180), ("attn", "GPT2SdpaAttention", 100))
    )
    tree = ModuleNode(
        "model",
        "GPT2LMHeadModel",
        peak - 20 * MIB,
        children=(
            ModuleNode(
                "transformer",
                "GPT2Model",
                12 * 290 * MIB + 70 * MIB,
                children=(
                    ModuleNode("h.*", "GPT2Block", 12 * 290 * MIB, repeats=12, children=blocks),
                    ModuleNode("wte", "Embedding", 48 * MIB),
                ),
            ),
            ModuleNode("lm_head", "Linear", 1_311 * MIB),
        ),
    )
    by_line = (
        Row("line 2", lines[2], 412),
        Row("before: optimizer state", 1_946 * MIB, 296),
        Row("before: parameter", 973 * MIB, 148),
        Row("line 3", lines[3], 3),
        Row("line 4", lines[4], 2),
    )
    return ReportData(
        recorder="cuda",
        bytes_kind="block",
        exact=True,
        device="cuda:0",
        device_name="NVIDIA GeForce RTX 4090",
        name=None,
        execution_count=12,
        duration_s=1.84,
        start_bytes=totals[0],
        peak_bytes=peak,
        peak_s=times[at],
        end_bytes=totals[-1],
        retained_bytes=totals[-1] - totals[0],
        peak_requested_bytes=peak - 37 * MIB,
        curve=Curve(times, series),
        spans=(
            Span("forward", 0.12, 0.92),
            Span("backward", 0.92, 1.42),
            Span("optimizer", 1.42, 1.66),
        ),
        by_category=tuple(
            sorted(
                (Row(name, size, 10) for name, size in parts.items() if size),
                key=lambda row: -row.bytes,
            )
        ),
        by_line=tuple(sorted(by_line, key=lambda row: -row.bytes)),
        by_module=(
            Row("model.transformer.h.0.mlp", peak - 1_331 * MIB, 300),
            Row("model.lm_head", 1_311 * MIB, 4),
            Row("(no module)", 20 * MIB, 2),
        ),
        by_op=(
            Row("before: optimizer state", 1_946 * MIB, 296),
            Row("aten::linear", peak - 2_919 * MIB, 417),
            Row("before: parameter", 973 * MIB, 148),
        ),
        source=tuple(
            SourceLine(
                number,
                text,
                lines.get(number, 0),
                1_239 * MIB if number == 3 else 0,
            )
            for number, text in enumerate(SOURCE.split("\n"), 1)
        ),
        modules=(tree,),
        kept=(
            Kept(
                "history[-1]",
                1_239 * MIB,
                214,
                "activation",
                3,
                "holds the graph of `loss`: append loss.item() or loss.detach()",
            ),
        ),
        allocator=Allocator(
            reserved_bytes=9_216 * MIB,
            peak_reserved_bytes=9_216 * MIB,
            inactive_split_bytes=412 * MIB,
            fragmentation=412 / 9_216,
            private_pool_bytes=None,
            alloc_retries=0,
            ooms=0,
        ),
        other_devices=(DevicePeak("cuda:1", 0, 64 * MIB, 64 * MIB),),
        notes=("Other processes' memory on this device is not part of this report.",),
    )


def compared() -> ReportData:
    """A cell without a GPU, beside an earlier run."""
    base = gpu()
    return dataclasses.replace(
        base,
        recorder="cpu",
        bytes_kind="tensor",
        device="cpu",
        device_name=None,
        name="checkpointed",
        error="KeyboardInterrupt",
        allocator=None,
        other_devices=(),
        peak_requested_bytes=None,
        kept=(
            *base.kept,
            Kept('<img src=x onerror="alert(1)">', 2 * MIB, 1, "input", 1),
            Kept(None, 3 * MIB, 7, "unknown", None),
        ),
        source=(
            *base.source,
            SourceLine(7, "<script>alert(1)</script>  # 漢字 " + "x" * 200, 12, 0),
        ),
        comparison=Comparison(
            name="plain",
            peak_bytes=base.peak_bytes + 2_048 * MIB,
            start_bytes=base.start_bytes,
            end_bytes=base.end_bytes,
            duration_s=1.31,
            categories=(Change("activation", 6_933 * MIB, 4_885 * MIB),),
            lines=(
                Change("out = model(**batch)", 5_560 * MIB, 3_512 * MIB),
                Change("loss = out.loss", 737 * MIB, 737 * MIB),
            ),
            modules=(Change("model.transformer", 5_598 * MIB, 3_550 * MIB),),
        ),
    )


def empty() -> ReportData:
    """A cell that allocated nothing."""
    return ReportData(
        recorder="cpu",
        bytes_kind="tensor",
        exact=True,
        device="cpu",
        device_name=None,
        name=None,
        execution_count=None,
        duration_s=0.001,
        start_bytes=0,
        peak_bytes=0,
        peak_s=0.0,
        end_bytes=0,
        retained_bytes=0,
        peak_requested_bytes=None,
        curve=Curve((0.0, 0.001), ()),
        spans=(),
        by_category=(),
        by_line=(),
        by_module=(),
        by_op=(),
        source=(SourceLine(1, "x = 1", 0, 0),),
        modules=(),
        kept=(),
    )


EXAMPLES = {
    "gpu.json": gpu,
    "compared.json": compared,
    "empty.json": empty,
    "estimate.json": estimate,
}


if __name__ == "__main__":
    for name, make in EXAMPLES.items():
        text = json.dumps(to_json(make()), ensure_ascii=False, indent=1)
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")
