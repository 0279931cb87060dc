"""Operations of a dry run: no memory, the right device, storages counted as long as they live."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from jupyter_vram.dry_run.emulation import Emulation
from jupyter_vram.dry_run.schema import Kind, kind_of
from support.children import emulated

MIB = 1 << 20
aten = torch.ops.aten


def live(emulation: Emulation, device: str = "cuda:0") -> int:
    return emulation.watch.live_bytes.get(device, 0)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (aten.mm.default, Kind.NEW),
        (aten._to_copy.default, Kind.NEW),
        (aten.empty.memory_format, Kind.NEW),
        (aten.native_dropout.default, Kind.NEW),
        (aten.add_.Tensor, Kind.IN_PLACE),
        (aten.copy_.default, Kind.IN_PLACE),
        (aten._foreach_add_.Scalar, Kind.WRITES),
        (aten._fused_adamw_.default, Kind.WRITES),
        (aten.view.default, Kind.VIEW),
        (aten.lift_fresh.default, Kind.VIEW),
        (aten.add.out, Kind.OTHER),
        (aten.nonzero.default, Kind.OTHER),
        (aten.squeeze_.dim, Kind.OTHER),
        (aten._local_scalar_dense.default, Kind.OTHER),
    ],
)
def test_kind_of_an_operation_is_in_its_schema(operation: Any, kind: Kind) -> None:
    assert kind_of(operation) is kind


def test_storage_counts_from_its_operation_until_its_last_reference_goes() -> None:
    def job(emulation: Emulation) -> list[int]:
        seen = []
        x = torch.randn(MIB, device="cuda")
        seen.append(live(emulation))
        view = x[10:].view(-1)
        y = x * 2
        seen.append(live(emulation))
        del x
        seen.append(live(emulation))
        del view
        seen.append(live(emulation))
        y.add_(1)
        seen.append(live(emulation))
        del y
        return [*seen, live(emulation), emulation.watch.peak_bytes["cuda:0"]]

    assert emulated(job) == [4 * MIB, 8 * MIB, 8 * MIB, 4 * MIB, 4 * MIB, 0, 8 * MIB]


def test_remembered_outputs_are_as_those_of_the_meta_kernel() -> None:
    def job(emulation: Emulation) -> list[bool]:
        x = torch.randn(4, 6, device="cuda").t()
        index = torch.tensor([0, 2])
        found = []
        calls: Any = (
            lambda: x + 1,
            lambda: x + 1.0,
            lambda: x > 1,
            lambda: x.long() + True,
            lambda: x.long() * 1.5,
            lambda: x[index],
            lambda: torch.native_layer_norm(x, (4,), None, None, 1e-5)[1],
            lambda: torch.sort(x)[1],
            lambda: x.sum(0, keepdim=True),
            lambda: torch._foreach_mul([x, x], 2)[1],
        )
        for call in calls:
            first, second = call(), call()
            found.append(
                (first.shape, first.stride(), first.dtype, first.device)
                == (second.shape, second.stride(), second.dtype, second.device)
                and first.untyped_storage()._cdata != second.untyped_storage()._cdata
            )
        return found

    assert all(emulated(job))


def test_devices_that_do_not_mix_are_refused_as_by_torch() -> None:
    def job(_: Emulation) -> str:
        weight, x = torch.randn(3, 3, device="cuda"), torch.randn(3, 3)
        try:
            return str(weight @ x)
        except RuntimeError as error:
            return str(error)

    assert "Expected all tensors to be on the same device" in emulated(job)


def test_scalars_and_indices_of_the_host_mix() -> None:
    def job(_: Emulation) -> list[str]:
        x = torch.randn(3, 3, device="cuda")
        return [
            str(result.device)
            for result in (x * torch.tensor(2.0), torch.tensor(2.0) * x, x[torch.tensor([0, 1])])
        ]

    assert emulated(job) == ["cuda:0"] * 3


def test_values_of_the_host_are_real() -> None:
    def job(_: Emulation) -> list[Any]:
        ids = torch.tensor([[5, 6, 0], [7, 0, 0]])
        return [
            ids[ids != 0].tolist(),
            int(ids.max()),
            torch.arange(3).tolist(),
            sorted(torch.randperm(4).tolist()),
            (ids != 0).sum(1).tolist(),
        ]

    assert emulated(job) == [[5, 6, 7], 7, [0, 1, 2], [0, 1, 2, 3], [2, 1]]


def test_models_on_the_host_take_no_memory() -> None:
    def job(emulation: Emulation) -> tuple[int, int]:
        model = torch.nn.Linear(100_000, 100_000)  # 40 GB
        host = live(emulation, "cpu")
        model.to("cuda")
        return host, live(emulation)

    expected = 4 * (100_000 * 100_000 + 100_000)
    assert emulated(job) == (expected, expected)


def test_tied_parameters_stay_one_when_moved() -> None:
    def job(emulation: Emulation) -> tuple[bool, int]:
        model = torch.nn.Sequential(torch.nn.Embedding(100, 8), torch.nn.Linear(8, 100, bias=False))
        model[1].weight = model[0].weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.cuda()
        same = model[1].weight is model[0].weight is optimizer.param_groups[0]["params"][0]
        return same, live(emulation)

    assert emulated(job) == (True, 3200)


def test_memory_of_another_process_is_never_written() -> None:
    shared = torch.zeros(4).share_memory_()

    def job(_: Emulation) -> None:
        shared.add_(1)
        torch._foreach_add_([shared], 1)

    emulated(job)
    assert shared.tolist() == [0.0] * 4


def test_code_on_the_cpu_counts_on_the_gpu_when_it_is_taken_to_be_there() -> None:
    model = torch.nn.Linear(256, 256, bias=False)
    batch = torch.zeros(8, 256)

    def job(emulation: Emulation) -> list[int]:
        seen = [live(emulation)]
        out = model(batch)
        seen.append(live(emulation))
        del out
        return [*seen, live(emulation)]

    weight, rows = 256 * 256 * 4, 8 * 256 * 4
    assert emulated(job, on_gpu=True) == [weight, weight + 2 * rows, weight + rows]


def test_inference_mode_sees_the_same_operations() -> None:
    def job(emulation: Emulation) -> tuple[int, int]:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).cuda()
        x = torch.randn(4, 64, device="cuda")
        peaks = []
        for context in (torch.no_grad, torch.inference_mode):
            emulation.watch.peak_bytes.clear()
            with context():
                model(x)
            peaks.append(emulation.watch.peak_bytes["cuda:0"])
        return peaks[0], peaks[1]

    no_grad, inference = emulated(job)
    assert no_grad == inference > 0
