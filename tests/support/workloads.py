"""What people train in notebooks, small enough for a test: the cells, and what they hold by hand.

Each workload is two cells: `Workload.setup` builds model, optimizer and data, `Workload.step` is
the one to be recorded. Both expect the names ``torch`` and ``device`` (see `prelude`), and leave
``model``, ``optimizer`` (or ``None``) and the results at the top level, as a notebook does. A step
takes well below a second on one core, and can be run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Namespace = Mapping[str, Any]
FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Two cells, and the hand count of what they leave behind."""

    name: str
    setup: str
    step: str
    state_copies: int = 2
    """Tensors of a parameter's size that the optimizer keeps for each parameter."""
    counts_steps: bool = True
    """Whether it also keeps a scalar for each parameter: how many steps it has made."""
    trains: bool = True
    """Whether gradients are there at the end."""
    makes_gradients: bool = True
    """Whether the step makes those gradients."""
    results: tuple[str, ...] = ("loss",)
    """Names that the step binds to tensors, to outputs with tensors, or to lists of them."""
    graph_bytes: int = 0
    """What autograd still holds at the end, by hand."""

    def parameter_bytes(self, names: Namespace) -> int:
        return sum(FLOAT_BYTES * p.numel() for p in names["model"].parameters())

    def buffer_bytes(self, names: Namespace) -> int:
        return sum(b.numel() * b.element_size() for b in names["model"].buffers())

    def gradient_bytes(self, names: Namespace) -> int:
        """After the step."""
        return self.parameter_bytes(names) if self.trains else 0

    def optimizer_state_bytes(self, names: Namespace) -> int:
        """After the step."""
        if names["optimizer"] is None:
            return 0
        scalars = len(list(names["model"].parameters())) if self.counts_steps else 0
        return self.state_copies * self.parameter_bytes(names) + FLOAT_BYTES * scalars

    def result_bytes(self, names: Namespace) -> int:
        """Of what the step binds to a name at the top level, and of the graph behind it."""
        found = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for name in self.results
            for tensor in _tensors(names[name])
        }
        return sum(found.values()) + self.graph_bytes

    def retained_bytes(self, names: Namespace, *, first: bool = True) -> int:
        """What the step allocates and leaves behind; `first`: the optimizer's state, too."""
        return (
            self.result_bytes(names)
            + (self.gradient_bytes(names) if self.makes_gradients else 0)
            + (self.optimizer_state_bytes(names) if first else 0)
        )

    @property
    def whole(self) -> str:
        """Both in one cell."""
        return self.setup + self.step


def prelude(device: str = "cpu") -> str:
    """The first cell: the names that all others expect."""
    return f"import torch\ntorch.manual_seed(0)\ndevice = {device!r}\n"


def _tensors(value: Any) -> Iterable[Tensor]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


MLP = Workload(
    name="mlp",
    setup="""
from torch import nn
model = nn.Sequential(
    nn.Linear(256, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 1024), nn.GELU(),
    nn.LayerNorm(1024), nn.Linear(1024, 10),
).to(device)
optimizer = torch.optim.Adam(model.parameters())
inputs = torch.randn(512, 256, device=device)
targets = torch.randint(0, 10, (512,), device=device)
""",
    step="""
optimizer.zero_grad()
outputs = model(inputs)
loss = nn.functional.cross_entropy(outputs, targets)
loss.backward()
optimizer.step()
""",
    results=("outputs", "loss"),
)

_GPT2 = """
from transformers import GPT2Config, GPT2LMHeadModel
config = GPT2Config(
    n_layer=4, n_embd=128, n_head=4, vocab_size=2000, n_positions=128,
    attn_implementation="{attention}", use_cache=False,
)
model = GPT2LMHeadModel(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = {{"input_ids": torch.randint(0, 2000, (4, 128), device=device)}}
batch["labels"] = batch["input_ids"].clone()
"""
_TRANSFORMERS_STEP = """
output = model(**batch)
loss = output.loss
loss.backward()
optimizer.step()
optimizer.zero_grad()
"""

GPT2_EAGER = Workload(
    name="gpt2-eager",
    setup=_GPT2.format(attention="eager"),
    step=_TRANSFORMERS_STEP,
    trains=False,  # the gradients are gone at the end
    results=("output",),
)
GPT2_SDPA = Workload(
    name="gpt2-sdpa",
    setup=_GPT2.format(attention="sdpa"),
    step=_TRANSFORMERS_STEP,
    trains=False,
    results=("output",),
)

BERT = Workload(
    name="bert",
    setup="""
from transformers import BertConfig, BertForMaskedLM
config = BertConfig(
    num_hidden_layers=3, hidden_size=128, num_attention_heads=4, intermediate_size=512,
    vocab_size=2000, max_position_embeddings=128,
)
model = BertForMaskedLM(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = {
    "input_ids": torch.randint(0, 2000, (4, 96), device=device),
    "attention_mask": torch.ones(4, 96, dtype=torch.long, device=device),
    "labels": torch.randint(0, 2000, (4, 96), device=device),
}
""",
    step="""
optimizer.zero_grad()
output = model(**batch)
output.loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
""",
    results=("output",),
)

RESNET = Workload(
    name="resnet",
    setup="""
from torch import nn

class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(
            nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
        )

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return self.relu(y)

class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks, inputs = [], 16
        for width, stride in ((16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)):
            blocks.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
        self.layers = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, 10)

    def forward(self, x):
        return self.fc(self.pool(self.layers(self.stem(x))).flatten(1))

model = ResNet().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
images = torch.randn(8, 3, 96, 96, device=device)
labels = torch.randint(0, 10, (8,), device=device)
""",
    step="""
optimizer.zero_grad()
loss = criterion(model(images), labels)
loss.backward()
optimizer.step()
""",
    state_copies=1,
    counts_steps=False,
)

VIT = Workload(
    name="vit",
    setup="""
from transformers import ViTConfig, ViTForImageClassification
config = ViTConfig(
    num_hidden_layers=3, hidden_size=128, num_attention_heads=4, intermediate_size=512,
    image_size=64, patch_size=8, num_labels=10,
)
model = ViTForImageClassification(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
images = torch.randn(8, 3, 64, 64, device=device)
labels = torch.randint(0, 10, (8,), device=device)
""",
    step="""
optimizer.zero_grad()
output = model(pixel_values=images, labels=labels)
output.loss.backward()
optimizer.step()
""",
    results=("output",),
)

LSTM = Workload(
    name="lstm",
    setup="""
from torch import nn

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 128, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(256, 20)

    def forward(self, tokens):
        states, _ = self.lstm(self.embedding(tokens))
        return self.head(states)

model = Tagger().to(device)
optimizer = torch.optim.RMSprop(model.parameters())
tokens = torch.randint(0, 1000, (16, 32), device=device)
tags = torch.randint(0, 20, (16, 32), device=device)
""",
    step="""
optimizer.zero_grad()
scores = model(tokens)
loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
loss.backward()
optimizer.step()
""",
    state_copies=1,
    results=("scores", "loss"),
)

UNET = Workload(
    name="unet",
    setup="""
from torch import nn
import torch.nn.functional as F

def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(),
    )

class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.down = nn.ModuleList([block(i, o) for i, o in zip((3, *widths), widths)])
        self.middle = block(widths[-1], widths[-1])
        self.up = nn.ModuleList(
            [block(2 * w, n) for w, n in zip(widths[::-1], (*widths[-2::-1], widths[0]))]
        )
        self.head = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for layer in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = layer(torch.cat([x, skips.pop()], dim=1))
        return self.head(x)

model = UNet().to(device)
optimizer = torch.optim.AdamW(model.parameters())
images = torch.randn(2, 3, 64, 64, device=device)
masks = torch.randint(0, 2, (2, 1, 64, 64), device=device).float()
""",
    step="""
optimizer.zero_grad()
with torch.autocast(device, enabled=False):
    predicted = model(images)
    loss = F.binary_cross_entropy_with_logits(predicted, masks)
loss.backward()
optimizer.step()
""",
    results=("predicted", "loss"),
)

_OPTIMIZER = """
from torch import nn
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]).to(device)
optimizer = torch.optim.AdamW(model.parameters(), foreach={foreach})
model(torch.randn(8, 512, device=device)).sum().backward()
"""
OPTIMIZER_FOREACH = Workload(
    name="optimizer-foreach",
    setup=_OPTIMIZER.format(foreach=True),
    step="\noptimizer.step()\n",
    makes_gradients=False,
    results=(),
)
OPTIMIZER_SINGLE = Workload(
    name="optimizer-single",
    setup=_OPTIMIZER.format(foreach=False),
    step="\noptimizer.step()\n",
    makes_gradients=False,
    results=(),
)

CHECKPOINTING = Workload(
    name="checkpointing",
    setup="""
from torch import nn
from torch.utils.checkpoint import checkpoint

class Deep(nn.Module):
    def __init__(self, depth=6, width=256):
        super().__init__()
        self.blocks = nn.ModuleList([
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1),
                nn.Linear(4 * width, width),
            )
            for _ in range(depth)
        ])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)

model = Deep().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs = torch.randn(512, 256, device=device)
targets = torch.randint(0, 10, (512,), device=device)
""",
    step="""
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model(inputs), targets)
loss.backward()
optimizer.step()
""",
    state_copies=1,
    counts_steps=False,
)

ACCUMULATION = Workload(
    name="accumulation",
    setup="""
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 256)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(1024, 256, device=device)
""",
    step="""
optimizer.zero_grad()
total = 0.0
for batch in data.split(256):
    loss = (model(batch) - batch).pow(2).mean() / 4
    loss.backward()
    total += loss.item()
optimizer.step()
""",
)

INFERENCE = Workload(
    name="inference",
    setup="""
from torch import nn
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100),
).to(device).eval()
optimizer = None
images = torch.randn(16, 3, 64, 64, device=device)
""",
    step="""
predictions = []
with torch.no_grad():
    for chunk in images.split(4):
        predictions.append(model(chunk).softmax(-1))
predictions = torch.cat(predictions)
""",
    trains=False,
    results=("predictions",),
)

_LEAK_BATCH, _LEAK_WIDTH, _LEAK_CLASSES, _LEAK_TURNS = 256, 512, 32, 5
LEAK = Workload(
    name="leak",
    setup=f"""
from torch import nn
model = nn.Sequential(
    nn.Linear(128, {_LEAK_WIDTH}), nn.ReLU(), nn.Linear({_LEAK_WIDTH}, {_LEAK_CLASSES})
).to(device)
optimizer = None
criterion = nn.CrossEntropyLoss()
inputs = torch.randn({_LEAK_BATCH}, 128, device=device)
labels = torch.randint(0, {_LEAK_CLASSES}, ({_LEAK_BATCH},), device=device)
""",
    step=f"""
losses = []
for _ in range({_LEAK_TURNS}):
    losses.append(criterion(model(inputs), labels))
""",
    trains=False,
    results=("losses",),
    # Of each turn: what the ReLU gave, the logarithms of the softmax, and the loss's total weight.
    graph_bytes=FLOAT_BYTES
    * _LEAK_TURNS
    * (_LEAK_BATCH * _LEAK_WIDTH + _LEAK_BATCH * _LEAK_CLASSES + 1),
)

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        MLP,
        GPT2_EAGER,
        GPT2_SDPA,
        BERT,
        RESNET,
        VIT,
        LSTM,
        UNET,
        OPTIMIZER_FOREACH,
        OPTIMIZER_SINGLE,
        CHECKPOINTING,
        ACCUMULATION,
        INFERENCE,
        LEAK,
    )
}
