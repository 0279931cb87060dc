"""The machine that is made up must be one that can be."""

from __future__ import annotations

import pytest

from benchmarks.day import tick_bytes
from benchmarks.workload import GPUS, KERNELS, moment
from jupyter_vram.analysis.ownership import assemble

START = 1_764_547_200.0


@pytest.mark.parametrize("second", [0, 1, 44, 45, 3599, 3600, 86_399])
def test_every_byte_has_an_owner(second: int) -> None:
    now = moment(second, START, restart_s=3600)
    snapshot = assemble(now.measurement, now.sessions)
    assert len(snapshot.devices) == GPUS
    assert len(snapshot.kernels) == KERNELS
    assert not any(kernel.stale for kernel in snapshot.kernels)
    for view in snapshot.devices:
        sample = view.sample
        parts = [
            size
            for kernel in snapshot.kernels
            for share in kernel.devices
            if share.device_id == view.device.id
            for size in share.parts.values()
        ]
        told = (view.other_bytes, view.unattributed_bytes, sample.driver_reserved_bytes)
        known = [value for value in (*told, sample.free_bytes) if value is not None]
        assert len(known) == 4
        assert sum(parts) + sum(known) == sample.total_bytes


def test_kernels_are_replaced_in_turn() -> None:
    first, later = (
        {session.kernel_id for session in moment(second, START, restart_s=3600).sessions}
        for second in (0, 400)
    )
    assert len(first - later) == 1
    assert not first & {s.kernel_id for s in moment(7200, START, restart_s=3600).sessions}
    stays = [{s.kernel_id for s in moment(second, START).sessions} for second in (0, 86_399)]
    assert stays[0] == stays[1]


def test_a_tick_is_small() -> None:
    assert 500 < tick_bytes() <= 2000
