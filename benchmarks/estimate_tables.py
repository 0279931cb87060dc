"""Predicted peaks of three well-known models, in single precision, by batch and by length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import jupyter_vram
from benchmarks.results import Result

GIB = 1 << 30
BATCHES = (1, 8, 32)
LENGTHS = ((16, 512), (32, 512), (16, 1024))


def _bert(length: int = 512) -> tuple[Any, Callable[[int], dict[str, Any]]]:
    import transformers

    make: Any = transformers.BertConfig
    config = make(max_position_embeddings=max(512, length), num_labels=2)
    config._attn_implementation = "eager"  # noqa: SLF001 - how transformers asks for it

    def inputs(batch: int) -> dict[str, Any]:
        return {"input_ids": torch.randint(0, 30000, (batch, length), device="cuda")}

    return transformers.BertForSequenceClassification(config), inputs


def _images(name: str) -> tuple[Any, Callable[[int], dict[str, Any]]]:
    import transformers

    make: Any = {
        "resnet": (transformers.ResNetForImageClassification, transformers.ResNetConfig),
        "vit": (transformers.ViTForImageClassification, transformers.ViTConfig),
    }[name]
    model, config = make

    def inputs(batch: int) -> dict[str, Any]:
        return {"pixel_values": torch.randn(batch, 3, 224, 224, device="cuda")}

    return model(config()), inputs


MODELS: dict[str, Callable[[], tuple[Any, Callable[[int], dict[str, Any]]]]] = {
    "BERT-base, 512 tokens": _bert,
    "ResNet-50": lambda: _images("resnet"),
    "ViT-B/16": lambda: _images("vit"),
}


def _train(make: Callable[[], Any], rows: int) -> None:
    model, inputs = make()
    model.to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters())
    labels = torch.zeros(rows, dtype=torch.long, device="cuda")
    for _ in range(2):
        model(**inputs(rows), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def _infer(make: Callable[[], Any], rows: int) -> None:
    model, inputs = make()
    model.to("cuda").eval()
    with torch.inference_mode():
        model(**inputs(rows))


def measure(*, quick: bool = False) -> tuple[list[Result], Any]:
    """Peaks of the tensors, and of the device, in GiB."""
    found: list[Result] = []

    def add(name: str, run: Callable[..., None], make: Callable[[], Any], batch: int) -> None:
        report = jupyter_vram.estimate(run, args=(make, batch))
        device = (report.peak_device_bytes or 0) / GIB
        found.append(
            Result(
                part="tables",
                name=name,
                value=report.peak_bytes / GIB,
                unit="GiB",
                note=f"{device:.2f} GiB of the device",
            )
        )

    for name, make in MODELS.items():
        for batch in BATCHES[:1] if quick else BATCHES:
            add(f"{name}, batch {batch}, inference", _infer, make, batch)
            add(f"{name}, batch {batch}, training", _train, make, batch)
    for batch, length in () if quick else LENGTHS:
        name = f"BERT-base, training, {batch} × {length}"
        add(name, _train, lambda length=length: _bert(length), batch)  # type: ignore[misc]
    return found, [result.to_json() for result in found]
