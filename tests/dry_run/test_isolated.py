"""A new process gets what the code needs, and nothing of size is copied to it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import torch

from jupyter_vram.dry_run.parcel import pack, unpack
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.program import CallProgram, CellProgram
from jupyter_vram.dry_run.rehearsal import Setting
from jupyter_vram.dry_run.running import dry_run
from jupyter_vram.errors import DryRunError
from jupyter_vram.model.cell_code import CellCode
from jupyter_vram.report import Report
from support.children import GPU

LIMITS = Limits(timeout_s=60)


def cell(text: str, **namespace: Any) -> CellProgram:
    code = CellCode(text, 1, 1, frozenset({"<cell>"}))
    return CellProgram(code, text, "<cell>", {"torch": torch, **namespace})


def sent(**namespace: Any) -> dict[str, Any]:
    """What arrives of variables."""
    text = "\n".join(namespace)
    (program, _), _ = unpack(pack(cell(text, **namespace), Setting(GPU)))
    found: dict[str, Any] = program.namespace
    return found


def isolated(program: CellProgram | CallProgram) -> Report:
    outcome = dry_run(program, Setting(GPU), LIMITS, isolated=True)
    assert outcome.failure is None, outcome.failure
    assert outcome.recording is not None
    return Report.from_recording(outcome.recording, "cuda")


def notebook(source: str) -> dict[str, Any]:
    """Variables of a notebook, whose classes are of ``__main__``."""
    namespace: dict[str, Any] = {"__name__": "__main__", "torch": torch}
    exec(source, namespace)
    return namespace


def test_cell_with_a_trained_model_of_the_notebook() -> None:
    namespace = notebook(
        """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(512, 512)
        self.b = torch.nn.Linear(512, 512)
        self.b.weight = self.a.weight
    def forward(self, x):
        return self.b(self.a(x))

def loss_of(net, x):
    return helper(net(x))

helper = lambda y: y.square().mean()
net = Net()
optimizer = torch.optim.Adam(net.parameters())
loss_of(net, torch.zeros(2, 512)).backward()
optimizer.step()
"""
    )
    namespace["unused"] = threading.Lock()
    text = """
net.cuda()
assert net.b.weight is net.a.weight is optimizer.param_groups[0]["params"][0]
for state in optimizer.state.values():
    for key, value in state.items():
        state[key] = value.cuda() if value.dim() else value
loss = loss_of(net, torch.zeros(2, 512, device="cuda"))
loss.backward()
optimizer.step()
"""
    report = isolated(cell(text, **namespace))
    weights = 4 * (512 * 512 + 2 * 512)
    at_peak = {row.name: row.bytes for row in report.at_peak()}
    assert at_peak["parameter"] == weights
    assert at_peak["optimizer state"] == 2 * weights


def test_function_with_a_closure() -> None:
    rows = 1000

    def step() -> None:
        torch.zeros(rows, 10, device="cuda")

    assert isolated(CallProgram(step)).peak_bytes == 40_000


def test_large_tensors_are_not_copied() -> None:
    large = torch.empty(1 << 30, dtype=torch.uint8)
    views = [large[:10], large[5:].view(-1)]
    before = psutil.Process().memory_info().rss
    data = pack(cell("large, views", large=large, views=views), Setting(GPU))
    assert len(data) < 20_000
    assert psutil.Process().memory_info().rss - before < 50 << 20
    (program, _), arrived = unpack(data)
    ((storage, device),) = arrived.storages.values()
    assert (storage.nbytes(), device) == (1 << 30, "cpu")
    there = program.namespace["views"]
    assert there[1].untyped_storage()._cdata == storage._cdata
    assert (there[1].shape, there[1].storage_offset()) == (views[1].shape, 5)


def test_small_data_keeps_its_values_and_parameters_their_gradients() -> None:
    ids = torch.tensor([[3, 1], [4, 1]])
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    there = sent(ids=ids, parameter=parameter, again=parameter)
    assert there["ids"].tolist() == ids.tolist()
    assert there["again"] is there["parameter"]
    assert type(there["parameter"]) is torch.nn.Parameter
    assert there["parameter"].is_meta
    assert there["parameter"].requires_grad
    grad: Any = there["parameter"].grad
    assert grad.shape == (3,)
    assert parameter.grad is not None
    assert torch.equal(parameter.grad, torch.ones(3))


def test_tensors_of_a_gpu_are_told_by_their_form(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_vram.dry_run import parcel

    weight = torch.empty(4, 4, device="meta")
    monkeypatch.setattr(parcel, "native_device", lambda _: torch.device("cuda", 0))
    _, arrived = unpack(pack(cell("weight", weight=weight), Setting(GPU)))
    assert [(storage.nbytes(), device) for storage, device in arrived.storages.values()] == [
        (64, "cuda:0")
    ]


def test_what_cannot_be_sent_is_named() -> None:
    holder = {"workers": [1, threading.Lock()]}
    with pytest.raises(DryRunError) as error:
        pack(cell("holder", holder=holder), Setting(GPU))
    assert str(error.value).startswith("holder['workers'][1] (lock) can't be sent")


@pytest.fixture
def no_process_left() -> Iterator[None]:
    yield
    assert not psutil.Process().children()


@pytest.mark.usefixtures("no_process_left")
def test_crash_is_told() -> None:
    program = cell("import ctypes\nprint('before')\nctypes.string_at(0)")
    with pytest.raises(DryRunError) as error:
        dry_run(program, Setting(GPU), LIMITS, isolated=True)
    assert "signal 11" in str(error.value)


@pytest.mark.usefixtures("no_process_left")
def test_interrupt_is_passed_on() -> None:
    timer = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        dry_run(cell("while True: pass"), Setting(GPU), LIMITS, isolated=True)
    timer.join()


@pytest.mark.usefixtures("no_process_left")
def test_endless_loop_ends_at_the_timeout() -> None:
    limits = Limits(timeout_s=0.5)
    with pytest.raises(DryRunError, match=r"given up after 0\.5 s"):
        dry_run(cell("while True: pass"), Setting(GPU), limits, isolated=True)
