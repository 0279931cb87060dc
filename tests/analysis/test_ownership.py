"""Whose bytes: sums are exact, the kernel's report comes first, no number is trusted unchecked."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_vram.analysis import kernel_reasons, ownership
from jupyter_vram.analysis.ownership import assemble
from jupyter_vram.model.device import HOST_ID, Device, DeviceSample, ProcessSample
from jupyter_vram.model.kernel_report import AllocatorStats, KernelReport, TorchState
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.notice import Notice
from jupyter_vram.model.snapshot import (
    DeviceView,
    KernelView,
    Measurement,
    ReportReading,
    Snapshot,
)

GIB = 1 << 30
NOW = 1_700_000_000.0
GPU = Device(id="GPU-0", kind="cuda", index=0, name="GPU 0")
HOST = Device(id=HOST_ID, kind="host", index=None, name="Host memory")
SERVER = 100
"""The server's process: every kernel's parent."""


def gpu_sample(
    *processes: tuple[int, int | None],
    used: int = 20 * GIB,
    total: int = 80 * GIB,
    reserved: int | None = GIB,
    device: Device = GPU,
) -> DeviceSample:
    return DeviceSample(
        device=device,
        total_bytes=total,
        used_bytes=used,
        free_bytes=total - used - (reserved or 0),
        driver_reserved_bytes=reserved,
        processes=tuple(ProcessSample(pid, charge) for pid, charge in processes),
    )


def kernel(kernel_id: str, pid: int | None, **fields: object) -> KernelSession:
    base = KernelSession(
        kernel_id=kernel_id, pid=pid, name=f"{kernel_id}.ipynb", state="idle", language="python"
    )
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def report(
    pid: int,
    allocated: int | None = None,
    reserved: int = 0,
    *,
    age: float = 0.2,
    state: TorchState = "cuda_initialized",
    device_id: str = GPU.id,
    problem: str | None = None,
) -> ReportReading:
    devices: tuple[AllocatorStats, ...] = ()
    if allocated is not None:
        devices = (
            AllocatorStats(
                device_id=device_id, ordinal=0, allocated_bytes=allocated, reserved_bytes=reserved
            ),
        )
    return ReportReading(
        report=KernelReport(
            pid=pid,
            written_at=NOW - age,
            period_s=0.5,
            package_version="1",
            torch_state=state,
            devices=devices,
            problem=problem,
        )
    )


def measurement(
    *samples: DeviceSample,
    reports: dict[str, ReportReading] | None = None,
    listed: dict[str, ReportReading] | None = None,
    ancestors: dict[int, tuple[int, ...]] | None = None,
) -> Measurement:
    return Measurement(
        time=NOW,
        interval_s=1.0,
        devices=samples,
        reports=reports or {},
        listed_reports=listed,
        ancestors=ancestors or {},
    )


def children(*pids: int) -> dict[int, tuple[int, ...]]:
    return dict.fromkeys(pids, (SERVER, 1))


def one_kernel(snapshot: Snapshot) -> KernelView:
    (view,) = snapshot.kernels
    return view


def parts_sum(snapshot: Snapshot, view: DeviceView) -> int:
    shares = [
        size
        for kernel_view in snapshot.kernels
        for share in kernel_view.devices
        if share.device_id == view.device.id
        for size in share.parts.values()
    ]
    rest = (
        view.other_bytes,
        view.unattributed_bytes,
        view.sample.driver_reserved_bytes,
        view.sample.free_bytes,
    )
    assert all(size >= 0 for size in shares)
    assert all(size is None or size >= 0 for size in rest)
    return sum(shares) + sum(size or 0 for size in rest)


def test_a_reporting_kernel_is_told_apart_into_three_parts() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((10, 12 * GIB), (11, 2 * GIB)),
            reports={"a": report(10, 8 * GIB, 11 * GIB)},
            ancestors=children(10, 11),
        ),
        [kernel("a", 10)],
    )
    (share,) = one_kernel(snapshot).devices
    assert share.parts == {"allocated": 8 * GIB, "reserved_free": 3 * GIB, "context": GIB}
    assert share.process_bytes == 12 * GIB
    (view,) = snapshot.devices
    assert view.other_bytes == 2 * GIB
    assert view.unattributed_bytes == 6 * GIB
    assert view.sample.reasons["unattributed_bytes"] == ownership.NOT_NAMED
    assert [process.owner for process in view.processes] == ["kernel", "other"]


def test_children_count_as_the_kernels_own() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((10, 3 * GIB), (12, 2 * GIB), (13, GIB)),
            reports={"a": report(10, GIB, 2 * GIB)},
            ancestors={**children(10), 12: (10, SERVER, 1), 13: (12, 10, SERVER, 1)},
        ),
        [kernel("a", 10)],
    )
    (share,) = one_kernel(snapshot).devices
    assert share.process_bytes == 6 * GIB
    assert share.parts["context"] == 4 * GIB


def test_a_kernel_in_another_kernels_tree_keeps_its_own() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((10, 3 * GIB), (20, 2 * GIB)),
            ancestors={**children(10), 20: (10, SERVER, 1)},
        ),
        [kernel("outer", 10), kernel("inner", 20)],
    )
    charges = {view.kernel_id: view.devices[0].process_bytes for view in snapshot.kernels}
    assert charges == {"outer": 3 * GIB, "inner": 2 * GIB}


def test_a_kernel_behind_a_launcher_is_found_through_the_tree() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((55, 3 * GIB)),
            reports={"a": report(55, GIB, 2 * GIB)},
            ancestors={55: (10, SERVER, 1)},
        ),
        [kernel("a", 10)],
    )
    assert one_kernel(snapshot).devices[0].process_bytes == 3 * GIB


def test_a_process_that_two_kernels_claim_is_neithers() -> None:
    snapshot = assemble(
        measurement(gpu_sample((10, 3 * GIB)), ancestors=children(10)),
        [kernel("a", 10), kernel("b", 10)],
    )
    assert [view.devices for view in snapshot.kernels] == [(), ()]
    assert snapshot.devices[0].processes[0].owner == "unattributed"


def test_the_reported_number_counts_where_the_driver_confirms_it() -> None:
    # The kernel runs in a container: the server knows its launcher only, the driver and the
    # kernel agree on the number.
    snapshot = assemble(
        measurement(gpu_sample((7, 3 * GIB)), reports={"a": report(7, GIB, 2 * GIB)}),
        [kernel("a", 10)],
    )
    (share,) = one_kernel(snapshot).devices
    assert share.parts == {"allocated": GIB, "reserved_free": GIB, "context": GIB}


def test_the_reported_number_does_not_count_where_the_charge_contradicts_it() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((7, GIB // 4)),
            reports={"a": report(7, GIB, 2 * GIB)},
            ancestors=children(7),
        ),
        [kernel("a", 10)],
    )
    (share,) = one_kernel(snapshot).devices
    assert share.process_bytes is None
    assert share.parts == {"allocated": GIB, "reserved_free": GIB}
    assert snapshot.devices[0].processes[0].owner == "other"


def test_numbers_of_another_namespace_match_nobody_by_chance() -> None:
    # 4242 is the host's number of somebody's process, and by chance a kernel's number here.
    # That the kernel "a" reports this GPU, and nobody of its tree is named, gives it away.
    snapshot = assemble(
        measurement(
            gpu_sample((4242, 5 * GIB), (88_123, 3 * GIB)),
            reports={"a": report(10, GIB, 2 * GIB)},
            ancestors=children(10, 4242),
        ),
        [kernel("a", 10), kernel("b", 4242)],
    )
    views = {view.kernel_id: view for view in snapshot.kernels}
    assert views["b"].devices == ()
    assert views["a"].devices[0].parts == {"allocated": GIB, "reserved_free": GIB}
    (view,) = snapshot.devices
    assert view.other_bytes is None
    assert view.unattributed_bytes == 18 * GIB
    assert view.sample.reasons["unattributed_bytes"] == ownership.FOREIGN_NUMBERS
    assert {process.owner for process in view.processes} == {"unattributed"}


def test_a_process_that_is_not_here_is_unattributed() -> None:
    snapshot = assemble(
        measurement(gpu_sample((10, GIB), (999, 4 * GIB)), ancestors=children(10)),
        [kernel("a", 10)],
    )
    (view,) = snapshot.devices
    assert view.processes[1].owner == "unattributed"
    assert view.other_bytes == 0
    assert view.sample.reasons["unattributed_bytes"] == ownership.INVISIBLE


def test_a_driver_without_process_figures_leaves_the_report() -> None:
    # WSL 2, WDDM: the list has names and no figures.
    snapshot = assemble(
        measurement(
            gpu_sample((10, None), (11, None)),
            reports={"a": report(10, 8 * GIB, 11 * GIB)},
            ancestors=children(10, 11),
        ),
        [kernel("a", 10)],
    )
    (share,) = one_kernel(snapshot).devices
    assert share.process_bytes is None
    assert share.parts == {"allocated": 8 * GIB, "reserved_free": 3 * GIB}
    (view,) = snapshot.devices
    assert view.other_bytes is None
    assert view.sample.reasons["other_bytes"] == ownership.NO_FIGURES
    assert view.unattributed_bytes == 9 * GIB
    assert view.sample.reasons["unattributed_bytes"] == ownership.NO_FIGURES
    assert parts_sum(snapshot, view) == 80 * GIB


def test_a_list_that_failed_says_why() -> None:
    sample = dataclasses.replace(
        gpu_sample(), processes=None, reasons={"processes": "No permission."}
    )
    (view,) = assemble(measurement(sample), []).devices
    assert view.other_bytes is None
    assert view.unattributed_bytes == 20 * GIB
    assert view.sample.reasons["other_bytes"] == "No permission."


def test_a_mig_slice_is_joined_by_its_own_uuid() -> None:
    slice_device = Device(id="MIG-1", kind="cuda", index=0, name="MIG 1g", parent_id=GPU.id)
    parent = dataclasses.replace(gpu_sample(), processes=None)
    snapshot = assemble(
        measurement(
            parent,
            gpu_sample((10, None), used=5 * GIB, total=10 * GIB, device=slice_device),
            reports={"a": report(10, GIB, 2 * GIB, device_id="MIG-1")},
            ancestors=children(10),
        ),
        [kernel("a", 10)],
    )
    (share,) = one_kernel(snapshot).devices
    assert share.device_id == "MIG-1"
    on_parent = snapshot.devices[0].sample.reasons
    assert on_parent["unattributed_bytes"] == ownership.HAS_SLICES
    assert on_parent["other_bytes"] == ownership.HAS_SLICES
    assert [parts_sum(snapshot, view) for view in snapshot.devices] == [80 * GIB, 10 * GIB]


def test_a_device_that_only_the_kernel_sees_is_kept() -> None:
    snapshot = assemble(
        measurement(reports={"a": report(10, GIB, 2 * GIB, device_id="GPU-far")}),
        [kernel("a", 10)],
    )
    (share,) = one_kernel(snapshot).devices
    assert (share.device_id, share.reserved_bytes) == ("GPU-far", 2 * GIB)


def test_unknown_totals_stay_unknown_with_a_reason() -> None:
    sample = DeviceSample(
        device=GPU, processes=(ProcessSample(10, GIB),), reasons={"used_bytes": "GPU is lost."}
    )
    snapshot = assemble(measurement(sample, ancestors=children(10)), [kernel("a", 10)])
    (view,) = snapshot.devices
    assert view.unattributed_bytes is None
    assert view.sample.reasons["unattributed_bytes"] == ownership.NO_TOTALS
    assert view.sample.reasons["used_bytes"] == "GPU is lost."
    assert one_kernel(snapshot).devices[0].parts == {"process": GIB}


def test_a_stale_report_yields_to_the_drivers_charge() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((10, 4 * GIB)),
            reports={"a": report(10, 8 * GIB, 12 * GIB, age=20)},
            ancestors=children(10),
        ),
        [kernel("a", 10)],
    )
    view = one_kernel(snapshot)
    assert view.stale
    assert view.reason == kernel_reasons.STALE
    assert sum(view.devices[0].parts.values()) == 4 * GIB
    assert view.devices[0].reserved_bytes == 12 * GIB


def test_a_killed_kernels_old_report_is_not_the_new_kernels() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample(),
            reports={"a": report(9, 8 * GIB, 12 * GIB, age=ownership.GONE_AFTER_S + 1)},
            ancestors=children(10),
        ),
        [kernel("a", 10)],
    )
    view = one_kernel(snapshot)
    assert view.devices == ()
    assert view.report_time is None
    assert view.reason == kernel_reasons.NO_PACKAGE


@pytest.mark.parametrize(("ahead_s", "is_stale"), [(1, False), (3600, True)])
def test_a_clock_set_back_does_not_keep_a_report_fresh(ahead_s: float, is_stale: bool) -> None:
    def reported_by(pid: int) -> KernelView:
        reports = {"a": report(pid, 8 * GIB, 12 * GIB, age=-ahead_s)}
        known = children(10)
        return one_kernel(
            assemble(measurement(gpu_sample(), reports=reports, ancestors=known), [kernel("a", 10)])
        )

    assert reported_by(10).stale is is_stale
    # Of a process that is not here, only a report of now is believed.
    assert (reported_by(9).report_time is None) is is_stale


def test_a_long_held_gil_does_not_lose_the_report() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((10, 13 * GIB)),
            reports={"a": report(10, 8 * GIB, 12 * GIB, age=3600)},
            ancestors=children(10),
        ),
        [kernel("a", 10)],
    )
    assert one_kernel(snapshot).devices[0].allocated_bytes == 8 * GIB


def test_a_dead_kernel_holds_nothing() -> None:
    snapshot = assemble(
        measurement(gpu_sample(), reports={"a": report(10, GIB, 2 * GIB)}),
        [kernel("a", 10, state="dead")],
    )
    view = one_kernel(snapshot)
    assert view.devices == ()
    assert view.reason == kernel_reasons.DEAD


def test_host_memory_is_the_kernels_resident_and_the_rest_is_others() -> None:
    sample = DeviceSample(
        device=HOST,
        total_bytes=32 * GIB,
        used_bytes=10 * GIB,
        free_bytes=22 * GIB,
        processes=(ProcessSample(10, 2 * GIB), ProcessSample(12, GIB)),
    )
    snapshot = assemble(
        measurement(sample, ancestors={**children(10), 12: (10, SERVER, 1)}), [kernel("a", 10)]
    )
    (share,) = one_kernel(snapshot).devices
    assert share.parts == {"resident": 3 * GIB}
    assert snapshot.devices[0].other_bytes == 7 * GIB
    assert snapshot.devices[0].unattributed_bytes == 0


def test_shared_pages_counted_twice_are_cut_in_proportion() -> None:
    sample = DeviceSample(
        device=HOST,
        total_bytes=1000,
        used_bytes=300,
        free_bytes=700,
        processes=(ProcessSample(10, 400), ProcessSample(11, 200)),
    )
    snapshot = assemble(
        measurement(sample, ancestors=children(10, 11)), [kernel("a", 10), kernel("b", 11)]
    )
    assert [view.devices[0].parts["resident"] for view in snapshot.kernels] == [200, 100]
    assert snapshot.devices[0].other_bytes == 0


@pytest.mark.parametrize(
    ("session", "reading", "reason"),
    [
        (kernel("a", 10), None, kernel_reasons.NO_PACKAGE),
        (kernel("a", None), None, kernel_reasons.REMOTE),
        (kernel("a", 10, state="starting"), None, kernel_reasons.STARTING),
        (kernel("a", 10, language="R"), None, kernel_reasons.not_python("R")),
        (kernel("a", 10), ReportReading(problem="It is of 2030."), "It is of 2030."),
        (kernel("a", 10), report(10, state="not_imported"), kernel_reasons.NOT_IMPORTED),
        (kernel("a", 10), report(10, state="no_cuda_build"), kernel_reasons.NO_CUDA_BUILD),
        (
            kernel("a", 10),
            report(10, state="cuda_not_initialized"),
            kernel_reasons.NOT_INITIALIZED,
        ),
        (kernel("a", 10), report(10, 1, 2), None),
        (kernel("a", 10), report(10, problem="torch refused."), "torch refused."),
    ],
)
def test_each_missing_figure_has_its_sentence(
    session: KernelSession, reading: ReportReading | None, reason: str | None
) -> None:
    reports = {} if reading is None else {"a": reading}
    view = one_kernel(assemble(measurement(gpu_sample(), reports=reports), [session]))
    assert view.reason == reason
    assert reason is None or reason.endswith(".")


@pytest.mark.parametrize("age", [0.2, 20.0])
@pytest.mark.parametrize(
    ("listed", "now"), [(0, 8 * GIB), (8 * GIB, 0), (GIB, GIB + GIB // 8), (GIB, GIB)]
)
def test_what_changed_since_the_processes_were_listed_moves_no_context(
    listed: int, now: int, age: float
) -> None:
    context = GIB // 2
    snapshot = assemble(
        measurement(
            gpu_sample((10, context + listed), (11, context), used=2 * context + now),
            listed={"a": report(10, listed, listed, age=age + 1), "b": report(11, 0, 0)},
            reports={"a": report(10, now, now, age=age), "b": report(11, 0, 0)},
            ancestors=children(10, 11),
        ),
        [kernel("a", 10), kernel("b", 11)],
    )
    a, b = (view.devices[0] for view in snapshot.kernels)
    assert a.parts == {"allocated": now, "reserved_free": 0, "context": context}
    assert b.parts == {"allocated": 0, "reserved_free": 0, "context": context}
    assert a.process_bytes == context + listed
    (view,) = snapshot.devices
    assert (view.other_bytes, view.unattributed_bytes) == (0, 0)


@pytest.mark.parametrize(("before", "after"), [(0, 8 * GIB), (8 * GIB, 0)])
def test_a_list_that_is_newer_than_the_report_beside_it_moves_no_context(
    before: int, after: int
) -> None:
    context = GIB // 2
    snapshot = assemble(
        measurement(
            gpu_sample((10, context + after), (11, context), used=2 * context + after),
            listed={"a": report(10, before, before), "b": report(11, 0, 0)},
            reports={"a": report(10, after, after), "b": report(11, 0, 0)},
            ancestors=children(10, 11),
        ),
        [kernel("a", 10), kernel("b", 11)],
    )
    assert [view.devices[0].parts["context"] for view in snapshot.kernels] == [context, context]
    assert snapshot.devices[0].unattributed_bytes == 0


def test_a_first_allocation_since_the_list_leaves_the_charge_as_context() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((10, GIB // 2), used=3 * GIB),
            listed={"a": report(10)},
            reports={"a": report(10, GIB, 2 * GIB)},
            ancestors=children(10),
        ),
        [kernel("a", 10)],
    )
    assert one_kernel(snapshot).devices[0].parts["context"] == GIB // 2


def test_a_restarted_kernels_charge_is_not_measured_by_the_one_before() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((10, 3 * GIB)),
            listed={"a": report(9, 0, 0)},
            reports={"a": report(10, GIB, 2 * GIB)},
            ancestors=children(9, 10),
        ),
        [kernel("a", 10)],
    )
    assert one_kernel(snapshot).devices[0].parts["context"] == GIB


def test_a_process_that_just_ended_does_not_make_all_numbers_foreign() -> None:
    # The list has one that is gone, and lacks the kernel, whose first memory is newer.
    snapshot = assemble(
        measurement(
            gpu_sample((99, GIB), (11, 2 * GIB), used=4 * GIB),
            listed={"a": report(10)},
            reports={"a": report(10, GIB, GIB)},
            ancestors=children(10, 11),
        ),
        [kernel("a", 10)],
    )
    (view,) = snapshot.devices
    assert [process.owner for process in view.processes] == ["unattributed", "other"]
    assert view.other_bytes == 2 * GIB
    assert view.sample.reasons["unattributed_bytes"] == ownership.INVISIBLE


def test_what_is_reserved_since_the_list_does_not_make_a_confirmed_number_doubtful() -> None:
    snapshot = assemble(
        measurement(
            gpu_sample((7, 3 * GIB), used=9 * GIB),
            listed={"a": report(7, 2 * GIB, 2 * GIB)},
            reports={"a": report(7, 8 * GIB, 8 * GIB)},
        ),
        [kernel("a", 10)],
    )
    assert one_kernel(snapshot).devices[0].parts["context"] == GIB


def test_notices_staleness_and_time_pass_through() -> None:
    notice = Notice("gpu_lost", "error", "Gone.")
    given_measurement = dataclasses.replace(
        measurement(gpu_sample()), notices=(notice,), stale=True
    )
    snapshot = assemble(given_measurement, [])
    assert (snapshot.notices, snapshot.stale, snapshot.time) == ((notice,), True, NOW)


PIDS = st.integers(min_value=1, max_value=12)
BYTES = st.integers(min_value=0, max_value=200)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Measurement, list[KernelSession]]:
    """Any tangle of processes, reports and trees, on devices whose own figures are sound."""
    samples = []
    for index in range(draw(st.integers(1, 3))):
        total = draw(st.integers(0, 300))
        free = draw(st.integers(0, total))
        reserved = draw(st.none() | st.integers(0, total - free))
        host = draw(st.booleans())
        device = HOST if host else Device(id=f"GPU-{index}", kind="cuda", index=index, name="G")
        named = draw(st.none() | st.dictionaries(PIDS, st.none() | BYTES, max_size=6))
        samples.append(
            DeviceSample(
                device=device,
                total_bytes=total,
                used_bytes=total - free - (reserved or 0),
                free_bytes=free,
                driver_reserved_bytes=reserved,
                processes=None
                if named is None
                else tuple(ProcessSample(pid, size) for pid, size in named.items()),
            )
        )
    ancestors = draw(st.dictionaries(PIDS, st.lists(PIDS, max_size=3).map(tuple), max_size=8))
    sessions = []
    reports: dict[str, ReportReading] = {}
    listed: dict[str, ReportReading] = {}
    for number in range(draw(st.integers(0, 4))):
        kernel_id = f"k{number}"
        state = draw(st.sampled_from(["idle", "busy", "dead", "starting"]))
        sessions.append(kernel(kernel_id, draw(st.none() | PIDS), state=state))
        for readings in (reports, listed):
            if draw(st.booleans()):
                readings[kernel_id] = report(
                    draw(PIDS),
                    draw(st.none() | BYTES),
                    draw(BYTES),
                    age=draw(st.sampled_from([0.1, 5.0, 100.0])),
                    device_id=f"GPU-{draw(st.integers(0, 3))}",
                )
    return measurement(
        *samples,
        reports=reports,
        listed=draw(st.sampled_from([None, listed])),
        ancestors=ancestors,
    ), sessions


@settings(max_examples=400, deadline=None)
@given(scenes())
def test_the_parts_of_a_device_always_add_up(
    scene: tuple[Measurement, list[KernelSession]],
) -> None:
    snapshot = assemble(*scene)
    hosts = sum(view.device.kind == "host" for view in snapshot.devices)
    for view in snapshot.devices:
        if view.device.kind == "host" and hosts > 1:
            continue  # drawn twice, and the kernels' shares can't be told apart by id
        assert parts_sum(snapshot, view) == view.sample.total_bytes
        for name in ("other_bytes", "unattributed_bytes"):
            if getattr(view, name) is None:
                assert view.sample.reasons[name].endswith(".")
    owned = {
        process.kernel_id
        for view in snapshot.devices
        for process in view.processes
        if process.owner == "kernel"
    }
    assert owned <= {session.kernel_id for session in scene[1]}
