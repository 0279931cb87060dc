"""Common shapes of code, as they are, in a dry run on a machine without a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils import data
from torch.utils.checkpoint import checkpoint

import jupyter_vram
from jupyter_vram.dry_run.outcome import Outcome
from jupyter_vram.report import Report
from support.children import rehearsed

ROWS = 4096


def ran(function: Callable[[], object], **how: Any) -> Outcome:
    outcome = rehearsed(function, **how)
    assert outcome.failure is None, outcome.failure.traceback
    return outcome


def peak(outcome: Outcome) -> int:
    assert outcome.recording is not None
    return Report.from_recording(outcome.recording).peak_bytes


def assumed(outcome: Outcome) -> str:
    return "\n".join(one.text for one in outcome.assumptions)


class Net(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.relu(layer(x))
        result: torch.Tensor = self.norm(x)
        return result


@pytest.mark.parametrize("spelling", ["new", "old"])
def test_mixed_precision_with_a_scaler(spelling: str) -> None:
    def step() -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        assert device.type == "cuda"
        net = Net().to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        warnings.simplefilter("ignore")
        scaler = torch.amp.GradScaler("cuda") if spelling == "new" else torch.cuda.amp.GradScaler()
        assert scaler.is_enabled()
        for _ in range(3):
            context = torch.autocast("cuda") if spelling == "new" else torch.cuda.amp.autocast()
            with context:
                loss = net(torch.randn(ROWS, 64, device=device)).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
            print(f"{loss.item():.3f} {float(loss)} {loss}")
        assert len(optimizer.state) == len(list(net.parameters()))

    ran(step)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_keeps_less(reentrant: bool) -> None:
    def step(checkpointed: bool) -> Callable[[], None]:
        def run() -> None:
            layers = [
                nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)) for _ in range(8)
            ]
            net = nn.Sequential(*layers).cuda()
            x = torch.randn(ROWS, 64, device="cuda", requires_grad=True)
            for layer in net:
                x = checkpoint(layer, x, use_reentrant=reentrant) if checkpointed else layer(x)
            x.sum().backward()

        return run

    plain, less = ran(step(False)), ran(step(True))
    assert peak(less) < 0.7 * peak(plain)
    assert less.recording is not None
    assert "recompute" in {span.phase for trace in less.recording.traces for span in trace.phases}


def test_real_data_of_a_loader_and_a_loop_that_ends_early() -> None:
    x = torch.arange(100_000, dtype=torch.float32).view(-1, 10)
    dataset = data.TensorDataset(x, (x.sum(1) > 0).long())

    def train() -> None:
        net = nn.Linear(10, 2).cuda()
        optimizer = torch.optim.AdamW(net.parameters())
        loader = data.DataLoader(
            dataset, batch_size=8, shuffle=True, num_workers=2, pin_memory=True
        )
        seen = 0
        for _ in range(3):
            for rows, targets in loader:
                assert rows.shape == (8, 10)
                assert bool((targets >= 0).all())  # its values are real
                loss = F.cross_entropy(net(rows.cuda(non_blocking=True)), targets.to("cuda"))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                seen += 1
        assert seen < 30

    outcome = ran(train)
    assert "batches: the last 3 needed the same" in assumed(outcome)


def test_loop_that_grows_is_not_cut() -> None:
    dataset: Any = [torch.zeros(10) for _ in range(40)]

    def train() -> None:
        kept = [batch.cuda() for batch in data.DataLoader(dataset, batch_size=2)]
        assert len(kept) == 20

    assert peak(ran(train)) == 40 * 40


def test_iterator_from_before_goes_on_here_and_stays_there() -> None:
    numbers: Any = list(range(64))
    loader: Any = data.DataLoader(numbers, batch_size=4, num_workers=1)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1, 2, 3]

    def step() -> None:
        assert next(batches).shape == (4,)

    ran(step)
    assert next(batches).tolist() == [4, 5, 6, 7]


def test_iterable_and_numpy_data() -> None:
    class Stream(data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[Any]:
            return iter(np.ones((10, 3), np.float32))

    def step() -> None:
        sizes = [len(batch) for batch in data.DataLoader(Stream(), batch_size=4)]
        assert sizes == [4, 4, 2]
        assert torch.from_numpy(np.ones(3)).cuda().is_cuda

    ran(step)


def test_values_that_nobody_has() -> None:
    def step() -> None:
        logits = torch.randn(8, 4, device="cuda")
        loss = logits.mean()
        best = float("inf")
        if loss < best:
            best = loss.item()
        correct = (logits.argmax(1) == torch.zeros(8, dtype=torch.long, device="cuda")).sum()
        assert correct.item() / 8 == 0
        assert not torch.isnan(loss)
        assert logits.cpu().numpy().shape == (8, 4)
        assert len(logits.tolist()) == 8
        assert logits[logits > 0].shape == (32,)
        assert logits.nonzero().shape == (32, 2)
        assert logits.unique().shape == (32,)

    text = assumed(ran(step))
    assert "nonzero() returns as much as its values say" in text
    assert "False was assumed" in text


def test_loop_on_values_that_nobody_has_is_ended() -> None:
    def step() -> None:
        error = torch.ones((), device="cuda")
        while not error < 0.1:
            error = error * 0.5

    outcome = rehearsed(step)
    assert outcome.failure is not None
    assert "its loop may not end" in outcome.failure.message


def test_compiled_code_runs_as_it_is_written() -> None:
    def step() -> None:
        @torch.compile
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        net = torch.compile(Net().cuda(), mode="reduce-overhead")
        net(double(torch.randn(8, 64, device="cuda"))).sum().backward()

    assert "torch.compile() was left out" in assumed(ran(step))


def test_what_the_gpu_is_asked() -> None:
    def step() -> None:
        assert torch.cuda.get_device_name() == "Test GPU"
        assert torch.cuda.get_device_capability() == (8, 9)
        assert torch.cuda.device_count() == 1
        x = torch.zeros(1024, device="cuda:0")
        assert torch.cuda.memory_allocated() == 4096
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        free, total = torch.cuda.mem_get_info()
        assert 0 < free < total
        torch.manual_seed(0)
        torch.cuda.manual_seed_all(0)
        generator = torch.Generator("cuda").manual_seed(3)
        torch.randn(3, device="cuda", generator=generator)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            y = x + 1
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        assert start.elapsed_time(end) == 0.0
        assert y.get_device() == 0
        assert x.type() == "torch.cuda.FloatTensor"
        assert x.half().dtype == torch.float16
        assert torch.empty_like(x, device="cpu").device.type == "cpu"
        print(torch.cuda.memory_summary(), torch.cuda.memory_stats()["allocated_bytes.all.peak"])

    ran(step)


def test_graphs_are_refused_and_annotated() -> None:
    def step() -> None:
        assert (torch.cuda.CUDAGraph | None) is not None
        torch.cuda.CUDAGraph()

    outcome = rehearsed(step)
    assert outcome.failure is not None
    assert "captures a CUDA graph" in outcome.failure.message


def test_devices_without_an_index() -> None:
    def step() -> None:
        assert torch.tensor([1.0], device="cuda").device == torch.device("cuda", 0)
        with torch.device("cuda"):
            assert torch.tensor([]).is_cuda
            assert nn.Linear(2, 2).weight.is_cuda
        torch.set_default_device("cuda")
        assert torch.zeros(2).device.index == 0
        assert torch.as_tensor(np.ones(2), device=torch.device("cuda")).is_cuda

    ran(step)


def test_memory_is_that_of_the_dry_run() -> None:
    def step() -> None:
        x = torch.zeros(1 << 20, device="cuda")
        del x
        assert torch.cuda.memory_allocated() == 0
        assert torch.cuda.max_memory_allocated() == 4 << 20

    ran(step)


def test_copies_states_hooks_and_functions() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            result: torch.Tensor = grad * 2 + 0 * x
            return result

    def step() -> None:
        import copy

        net = Net().cuda()
        average = copy.deepcopy(net)
        seen: list[Any] = []
        net.layers[0].register_forward_hook(lambda *_: seen.append("forward"))
        net.layers[0].register_full_backward_hook(lambda *_: seen.append("backward"))
        nn.utils.parametrizations.weight_norm(net.layers[1])
        net.layers[3].requires_grad_(False)
        x = torch.randn(8, 64, device="cuda")
        double: Any = Double.apply
        out = double(net(x))
        out.sum().backward()
        assert seen == ["forward", "backward"]
        with torch.no_grad():
            for mean, weight in zip(
                average.layers[0].parameters(), net.layers[0].parameters(), strict=True
            ):
                mean.lerp_(weight, 0.1)
        average.load_state_dict(average.state_dict())
        net.eval()
        with torch.inference_mode():
            net(x)

    ran(step)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, foreach=False),
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.RMSprop(p),
        lambda p: torch.optim.Adagrad(p),
        lambda p: torch.optim.NAdam(p),
    ],
)
def test_optimizers(make: Callable[[Any], torch.optim.Optimizer]) -> None:
    def step() -> None:
        net = Net().cuda()
        optimizer = make(net.parameters())
        for _ in range(2):
            net(torch.randn(8, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    ran(step)


def test_optimizers_with_closures_and_in_backward() -> None:
    def step() -> None:
        net = nn.Linear(8, 8).cuda()
        lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=2)

        def closure() -> Any:
            lbfgs.zero_grad()
            loss = net(torch.randn(4, 8, device="cuda")).square().mean()
            loss.backward()
            return loss

        lbfgs.step(closure)
        parts = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

        def hook(parameter: torch.Tensor) -> None:
            parts[parameter].step()  # type: ignore[index]
            parts[parameter].zero_grad()  # type: ignore[index]

        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(hook)
        net(torch.randn(4, 8, device="cuda")).sum().backward()
        assert all(parameter.grad is None for parameter in net.parameters())

    ran(step)


def test_recurrent_networks_convolutions_and_attention() -> None:
    def step() -> None:
        x = torch.randn(4, 16, 32, device="cuda")
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            kind(32, 32, num_layers=2, batch_first=True).cuda()(x)[0].sum().backward()
        nn.TransformerEncoderLayer(32, 4, batch_first=True).cuda()(x).sum().backward()
        attention = nn.MultiheadAttention(32, 4, batch_first=True).cuda()
        attention(x, x, x)[0].sum().backward()
        images = torch.randn(2, 3, 32, 32, device="cuda")
        nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.ConvTranspose2d(8, 3, 3), nn.Upsample(scale_factor=2), nn.GroupNorm(1, 3),
        ).cuda()(images).sum().backward()  # fmt: skip
        nn.EmbeddingBag(10, 4).cuda()(torch.zeros(3, 2, dtype=torch.long, device="cuda"))

    ran(step)


def test_graph_of_an_earlier_cell() -> None:
    net = nn.Linear(4, 4)
    loss = net(torch.ones(2, 4)).sum()

    def step() -> None:
        loss.backward()

    outcome = rehearsed(step)
    assert outcome.failure is None or outcome.failure.line is not None
    assert net.weight.grad is None


@pytest.fixture(scope="module")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small model of transformers', saved."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("model")
    config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=500, n_positions=64)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def test_text_is_generated_to_its_largest_length(checkpoint_folder: Any) -> None:
    transformers: Any = pytest.importorskip("transformers")

    def step() -> None:
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint_folder)
        model = model.to("cuda").eval()
        prompt = torch.randint(0, 500, (2, 8), device="cuda")
        for sampled in (False, True):
            text = model.generate(
                prompt, max_new_tokens=8, do_sample=sampled, eos_token_id=3, pad_token_id=0
            )
            assert text.shape == (2, 16)

    ran(step)


def test_a_loop_as_of_transformers_with_checkpoints(checkpoint_folder: Any) -> None:
    transformers: Any = pytest.importorskip("transformers")
    rows: Any = [{"input_ids": torch.randint(0, 500, (32,))} for _ in range(40)]

    def train() -> None:
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint_folder)
        model.to("cuda").train()
        model.gradient_checkpointing_enable()
        optimizer = torch.optim.AdamW(model.parameters())
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, 2, 20)
        total: Any = 0
        for batch in data.DataLoader(rows, batch_size=4, shuffle=True):
            tokens = {name: value.to("cuda") for name, value in batch.items()}
            loss = model(**tokens, labels=tokens["input_ids"]).loss
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += loss.detach().float()
        print(total.item())
        model.save_pretrained(checkpoint_folder / "trained")
        torch.save(model.state_dict(), checkpoint_folder / "state.pt")
        model.load_state_dict(torch.load(checkpoint_folder / "state.pt"))

    before = sorted(checkpoint_folder.iterdir())
    report = jupyter_vram.estimate(train)  # with its sandbox
    assert report.estimate is not None
    assert "10 batches" in "".join(one.text for one in report.estimate.assumptions)
    assert sorted(checkpoint_folder.iterdir()) == before


def test_checkpoint_of_before_is_read(tmp_path: Any) -> None:
    torch.save(Net().state_dict(), tmp_path / "net.pt")

    def step() -> None:
        net = Net()
        net.load_state_dict(torch.load(tmp_path / "net.pt"))
        net.cuda()

    ran(step)


def test_values_that_follow_from_the_hosts_are_known() -> None:
    def step() -> None:
        done = torch.full((3,), False, device="cuda")
        unknown = torch.randn(3, device="cuda") > 0
        open_ = torch.ones(3, dtype=torch.long, device="cuda")
        assert open_.max() == 1
        assert (open_ & ~(done | unknown | torch.full((3,), True, device="cuda"))).max() == 0
        open_[0] = 5
        assert not bool(
            open_.max() == 1
        )  # written to: not known any more, and nothing is assumed true
        assert torch.arange(4, device="cuda")[1:].tolist() == [1, 2, 3]

    ran(step)
