"""Gauges in the Prometheus registry that Jupyter Server shows at ``/metrics``.

Labelled by ids, never by a path or a name: whoever may read metrics need not know what others
work on. A scrape shows the latest measurement, and does not measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily

from jupyter_vram.model.snapshot import DeviceView, Snapshot

DEVICE_GAUGES: dict[str, tuple[str, Callable[[DeviceView], float | None]]] = {
    "total_bytes": ("Memory of the device.", lambda view: view.sample.total_bytes),
    "used_bytes": ("Memory in use, by all processes.", lambda view: view.sample.used_bytes),
    "free_bytes": ("Free memory.", lambda view: view.sample.free_bytes),
    "driver_reserved_bytes": (
        "Memory that the driver keeps for itself.",
        lambda view: view.sample.driver_reserved_bytes,
    ),
    "other_bytes": (
        "Memory of processes that are no kernel of this server.",
        lambda view: view.other_bytes,
    ),
    "unattributed_bytes": (
        "Memory in use of which it can't be told whose it is.",
        lambda view: view.unattributed_bytes,
    ),
}
PREFIX = "jupyter_vram_device_"

if TYPE_CHECKING:
    from prometheus_client.registry import Collector
else:
    Collector = object  # a protocol without code, that older releases do not have

Read = Callable[[], Snapshot | None]


class VramCollector(Collector):
    """Turns the latest snapshot of each server in this process into gauges."""

    def __init__(self) -> None:
        self._reads: list[Read] = []

    def add(self, read: Read, registry: CollectorRegistry = REGISTRY) -> None:
        """Show what `read` returns; the first one registers the gauges."""
        if read in self._reads:
            return
        self._reads.append(read)
        if len(self._reads) == 1:
            registry.register(self)

    def remove(self, read: Read, registry: CollectorRegistry = REGISTRY) -> None:
        """Show it no more; the last one takes the gauges back. Removing twice does nothing."""
        if read not in self._reads:
            return
        self._reads.remove(read)
        if not self._reads:
            registry.unregister(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: the registry would otherwise collect to learn the names."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family per gauge; what is unknown has no sample."""
        snapshots = [s for s in (read() for read in self._reads) if s is not None]
        views = {view.device.id: view for s in snapshots for view in s.devices}
        for name, (help_text, value_of) in DEVICE_GAUGES.items():
            family = GaugeMetricFamily(PREFIX + name, help_text, labels=["device"])
            for device_id, view in views.items():
                value = value_of(view)
                if value is not None:
                    family.add_metric([device_id], value)
            yield family
        yield _kernels(snapshots)


def _kernels(snapshots: Iterable[Snapshot]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "jupyter_vram_kernel_bytes",
        "Memory of a device that a kernel holds, by part; the parts add up.",
        labels=["device", "kernel_id", "part"],
    )
    for snapshot in snapshots:
        for kernel in snapshot.kernels:
            for share in kernel.devices:
                for part, size in share.parts.items():
                    family.add_metric([share.device_id, kernel.kernel_id, part], size)
    return family


COLLECTOR = VramCollector()
"""One for the process: the registry is one for the process, too."""
