"""What the dry run is measured on: small models of all common kinds, a step or two of each.

Each takes the device it runs on, builds everything itself, and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

Workload = Callable[[str], None]


def _train(model: nn.Module, loss_of: Callable[[], Any], optimizer: Any, steps: int = 2) -> None:
    model.train()
    for _ in range(steps):
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()


def _language_model(make: Callable[[], Any], device: str, **how: Any) -> None:
    model = make().to(device)
    tokens = torch.randint(0, 1000, (4, 128), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), **how)
    _train(model, lambda: model(input_ids=tokens, labels=tokens).loss, optimizer)


def _gpt2(**config: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=1000, n_positions=256, n_embd=192, n_layer=4, n_head=6, **config)
    )


def _llama(**config: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=1000,
            hidden_size=192,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=6,
            num_key_value_heads=2,
            **config,
        )
    )


def _bert(**config: Any) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=1000,
            hidden_size=192,
            intermediate_size=768,
            num_hidden_layers=4,
            num_attention_heads=6,
            **config,
        )
    )


def gpt2_eager(device: str) -> None:
    _language_model(lambda: _gpt2(attn_implementation="eager"), device)


def gpt2_sdpa_without_dropout(device: str) -> None:
    _language_model(
        lambda: _gpt2(attn_implementation="sdpa", attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0),
        device,
    )


def gpt2_checkpointed(device: str) -> None:
    def make() -> Any:
        model = _gpt2(attn_implementation="eager")
        model.gradient_checkpointing_enable()
        return model

    _language_model(make, device)


def gpt2_foreach(device: str) -> None:
    _language_model(lambda: _gpt2(attn_implementation="eager"), device, foreach=True)


def gpt2_fused(device: str) -> None:
    _language_model(lambda: _gpt2(attn_implementation="eager"), device, fused=True)


def gpt2_generate(device: str) -> None:
    model = _gpt2(attn_implementation="eager").to(device).eval()
    tokens = torch.randint(0, 1000, (4, 32), device=device)
    model.generate(tokens, max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0)


def llama_sdpa(device: str) -> None:
    _language_model(lambda: _llama(attn_implementation="sdpa"), device)


def llama_bfloat16_weights(device: str) -> None:
    _language_model(lambda: _llama(attn_implementation="eager").to(torch.bfloat16), device)


def bert_eager(device: str) -> None:
    _language_model(lambda: _bert(attn_implementation="eager"), device)


def bert_autocast(device: str) -> None:
    model = _bert(attn_implementation="eager").to(device)
    tokens = torch.randint(0, 1000, (4, 128), device=device)
    optimizer = torch.optim.AdamW(model.parameters())

    def loss() -> Any:
        with torch.autocast(device, dtype=torch.bfloat16):
            return model(input_ids=tokens, labels=tokens).loss

    _train(model, loss, optimizer)


def bert_inference(device: str) -> None:
    model = _bert(attn_implementation="eager").to(device).eval()
    with torch.no_grad():
        model(input_ids=torch.randint(0, 1000, (8, 256), device=device))


def t5(device: str) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    make: Any = T5Config
    config = make(
        vocab_size=1000,
        d_model=128,
        d_ff=512,
        num_layers=3,
        num_heads=4,
        d_kv=32,
        decoder_start_token_id=0,
    )
    _language_model(lambda: T5ForConditionalGeneration(config), device)


def vit(device: str) -> None:
    from transformers import ViTConfig, ViTForImageClassification

    config: Any = ViTConfig(
        hidden_size=192,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=6,
        image_size=128,
    )
    config._attn_implementation = "eager"  # noqa: SLF001 - how transformers asks for it
    model: Any = ViTForImageClassification(config)
    model = model.to(device)
    images = torch.randn(4, 3, 128, 128, device=device)
    labels = torch.randint(0, 2, (4,), device=device)
    optimizer = torch.optim.AdamW(model.parameters())
    _train(model, lambda: model(pixel_values=images, labels=labels).loss, optimizer)


class Residual(nn.Module):
    """A block of two convolutions around a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outside) for _ in range(3)])
        self.short = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.first(x)), inplace=True)
        y = self.norms[1](self.second(y))
        return F.relu(y + self.norms[2](self.short(x)), inplace=True)


def resnet(device: str) -> None:
    blocks = [Residual(3, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2), Residual(64, 128, 2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    model = nn.Sequential(*blocks, *head).to(device)
    images = torch.randn(8, 3, 64, 64, device=device)
    labels = torch.randint(0, 10, (8,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    _train(model, lambda: F.cross_entropy(model(images), labels), optimizer)


class UNet(nn.Module):
    """Down, and up again with what was seen on the way."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        sizes = [3, channels, 2 * channels, 4 * channels]
        self.down = nn.ModuleList([self._block(a, b) for a, b in pairwise(sizes)])
        self.up = nn.ModuleList([self._block(sizes[i + 1] + sizes[i], sizes[i]) for i in (2, 1)])
        self.out = nn.Conv2d(channels, 3, 1)

    @staticmethod
    def _block(inside: int, outside: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for block in self.down:
            x = block(x)
            seen.append(x)
            x = F.avg_pool2d(x, 2) if len(seen) < len(self.down) else x
        for block, other in zip(self.up, reversed(seen[:-1]), strict=False):
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), other], 1))
        result: torch.Tensor = self.out(x)
        return result


def unet(device: str) -> None:
    model = UNet().to(device)
    images = torch.randn(4, 3, 64, 64, device=device)
    optimizer = torch.optim.AdamW(model.parameters())
    _train(model, lambda: F.mse_loss(model(images), images), optimizer)


def diffusion(device: str) -> None:
    model = UNet().to(device)
    images = torch.randn(4, 3, 64, 64, device=device)
    optimizer = torch.optim.AdamW(model.parameters())
    alphas = torch.linspace(0.99, 0.01, 100, device=device).cumprod(0)

    def loss() -> Any:
        at = alphas[torch.randint(0, 100, (4,), device=device)].view(-1, 1, 1, 1)
        noise = torch.randn_like(images)
        return F.mse_loss(model(at.sqrt() * images + (1 - at).sqrt() * noise), noise)

    _train(model, loss, optimizer)


def lstm(device: str) -> None:
    model = nn.LSTM(128, 256, num_layers=2, batch_first=True).to(device)
    head = nn.Linear(256, 10).to(device)
    rows = torch.randn(16, 64, 128, device=device)
    labels = torch.randint(0, 10, (16,), device=device)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    _train(model, lambda: F.cross_entropy(head(model(rows)[0][:, -1]), labels), optimizer)


class Experts(nn.Module):
    """Each row goes through the two experts that score best, all of which see all rows."""

    def __init__(self, width: int = 128, count: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                for _ in range(count)
            ]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        shares = torch.zeros(*x.shape[:-1], len(self.experts), device=x.device)
        shares = shares.scatter(-1, chosen, weights)
        parts = [shares[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts)]
        return x + torch.stack(parts).sum(0)


def mixture_of_experts(device: str) -> None:
    model = nn.Sequential(*[Experts() for _ in range(3)]).to(device)
    rows = torch.randn(8, 64, 128, device=device)
    optimizer = torch.optim.AdamW(model.parameters())
    _train(model, lambda: model(rows).square().mean(), optimizer)


class LowRank(nn.Module):
    """A frozen layer, and a small one beside it that learns."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x) + self.up(self.down(x))
        return result


def lora(device: str) -> None:
    layers = [m for _ in range(6) for m in (LowRank(nn.Linear(256, 256)), nn.GELU())]
    model = nn.Sequential(*layers).to(device)
    rows = torch.randn(16, 64, 256, device=device)
    learned = [p for p in model.parameters() if p.requires_grad]
    _train(model, lambda: model(rows).square().mean(), torch.optim.AdamW(learned))


def contrastive_pair(device: str) -> None:
    text = nn.Sequential(nn.Embedding(1000, 128), nn.Flatten(), nn.Linear(128 * 16, 64)).to(device)
    image = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.GELU(), nn.Flatten(), nn.Linear(4096, 64))
    image = image.to(device)
    words = torch.randint(0, 1000, (32, 16), device=device)
    pictures = torch.randn(32, 3, 64, 64, device=device)
    labels = torch.arange(32, device=device)
    optimizer = torch.optim.AdamW([*text.parameters(), *image.parameters()])

    def loss() -> Any:
        scores = F.normalize(text(words)) @ F.normalize(image(pictures)).T
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2

    _train(text, loss, optimizer)


def accumulation(device: str) -> None:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(6)])
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        for _ in range(4):
            (model(torch.randn(128, 256, device=device)).square().mean() / 4).backward()
        optimizer.step()
        optimizer.zero_grad()


def checkpointed_layers(device: str) -> None:
    layers = [nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(6)]
    model = nn.Sequential(*layers).to(device)
    x = torch.randn(512, 128, device=device)

    def loss() -> Any:
        y = x
        for layer in model:
            y = checkpoint(layer, y, use_reentrant=False)
        return y.square().mean()

    _train(model, loss, torch.optim.SGD(model.parameters(), lr=0.1))


def transformer_layers(device: str) -> None:
    layers = [nn.TransformerEncoderLayer(192, 6, 768, batch_first=True) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(1000, 192), *layers, nn.Linear(192, 1000)).to(device)
    tokens = torch.randint(0, 1000, (4, 128), device=device)
    _train(
        model,
        lambda: F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()),
        torch.optim.AdamW(model.parameters()),
    )


WORKLOADS: tuple[Workload, ...] = (
    gpt2_eager,
    gpt2_sdpa_without_dropout,
    gpt2_checkpointed,
    gpt2_foreach,
    gpt2_fused,
    gpt2_generate,
    llama_sdpa,
    llama_bfloat16_weights,
    bert_eager,
    bert_autocast,
    bert_inference,
    t5,
    vit,
    resnet,
    unet,
    diffusion,
    lstm,
    mixture_of_experts,
    lora,
    contrastive_pair,
    accumulation,
    checkpointed_layers,
    transformer_layers,
)
