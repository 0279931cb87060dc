"""The server extension: its settings, its routes, and when it starts and stops."""

from __future__ import annotations

import logging
from typing import Any, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Enum, Float, TraitError, validate

from jupyter_vram.recorders.settings import PollerSettings, ShowHost
from jupyter_vram.server.kernel_events import KernelEvents
from jupyter_vram.server.metrics import COLLECTOR
from jupyter_vram.server.routes import SERVICE, HistoryHandler, SnapshotHandler
from jupyter_vram.server.service import VramService
from jupyter_vram.server.sessions import KernelSessions
from jupyter_vram.server.stream import StreamHandler
from jupyter_vram.sources.host import HostSource
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.processes import ancestors
from jupyter_vram.sources.report_file import ReportReader, report_path

LOGGER = logging.getLogger("jupyter_vram")
API = "/jupyter-vram/api/v1"
"""Below the server's base URL."""


class VramApp(ExtensionApp):
    """Measures GPU memory, and tells which notebook holds how much of it."""

    name = "jupyter_vram"
    app_name = "Jupyter VRAM"
    description = "Shows live which notebook holds how much memory of which GPU."
    load_other_extensions = True
    _started = False

    interval_s = Float(
        1.0, help="Seconds between two measurements while a panel is open that asks for no rate."
    ).tag(config=True)
    min_interval_s = Float(
        0.1, help="The fastest rate that a panel may ask for, in seconds between measurements."
    ).tag(config=True)
    background_interval_s = Float(
        10.0,
        help="Seconds between two measurements while no panel is open (for the history).",
    ).tag(config=True)
    process_interval_s = Float(
        2.0,
        help="Lists of processes cost a driver most: seconds between two readings, at least.",
    ).tag(config=True)
    driver_patience_s = Float(
        0.8,
        help="How long a measurement waits for a driver that does not answer, in seconds; then the"
        " last figures are shown, marked stale. At most 0.8.",
    ).tag(config=True)
    show_host = Enum(
        ("auto", "always", "never"),
        default_value="auto",
        help="Show the host's memory as a device: auto (where there is no GPU), always or never.",
    ).tag(config=True)
    load_kernels = Bool(
        True,
        help="Ask a Python kernel that does not report by itself to load jupyter_vram, if its"
        " environment has it. Leaves no trace in the kernel.",
    ).tag(config=True)
    load_kernels_after_s = Float(
        3.0, help="How long a started kernel's own report is awaited before, in seconds."
    ).tag(config=True)
    prometheus = Bool(
        True, help="Add gauges to the metrics that Jupyter Server shows at /metrics."
    ).tag(config=True)

    @validate(
        "interval_s",
        "min_interval_s",
        "background_interval_s",
        "process_interval_s",
        "driver_patience_s",
        "load_kernels_after_s",
    )
    def _validate_seconds(self, proposal: Any) -> float:
        name, value = proposal.trait.name, proposal.value
        least, most = {"min_interval_s": (0.1, 3600.0), "driver_patience_s": (0.05, 0.8)}.get(
            name, (0.1, 86400.0)
        )
        if not least <= value <= most:
            raise TraitError(f"{name} must be from {least} to {most} seconds, not {value}.")
        return float(value)

    def initialize_settings(self) -> None:
        """Build the service, and start it once the event loop runs."""
        server = self.serverapp
        assert server is not None
        reader = ReportReader()
        sessions = KernelSessions(server.kernel_manager, server.session_manager, report_path)
        self.service = VramService(
            sessions=sessions,
            sources={"The NVIDIA driver": NvmlSource(), "The operating system": HostSource()},
            read_report=reader.read,
            ancestors=ancestors,
            settings=PollerSettings(
                min_interval_s=self.min_interval_s,
                background_interval_s=self.background_interval_s,
                process_interval_s=self.process_interval_s,
                patience_s=self.driver_patience_s,
                show_host=cast("ShowHost", self.show_host),
            ),
            interval_s=self.interval_s,
        )
        self.kernel_events = KernelEvents(
            server.event_logger,
            server.kernel_manager,
            sessions,
            # In threads of its own, and a reader is for one thread.
            lambda path: ReportReader().read(path),
            self.load_kernels_after_s if self.load_kernels else None,
        )
        self.settings[SERVICE] = self.service
        server.io_loop.add_callback(self._start)

    def initialize_handlers(self) -> None:
        """The routes of the contract (docs/http-api.md)."""
        self.handlers.extend(
            [
                (f"{API}/snapshot", SnapshotHandler),
                (f"{API}/history", HistoryHandler),
                (f"{API}/stream", StreamHandler),
            ]
        )

    def _start(self) -> None:
        self._started = True
        # As Jupyter Server does with tornado's: our warnings go where the server's log goes.
        self._parent_logger, LOGGER.parent = LOGGER.parent, self.log
        self.service.start()
        self.kernel_events.start()
        if self.prometheus:
            COLLECTOR.add(self._latest)

    def _latest(self) -> Any:
        return self.service.snapshot

    async def stop_extension(self) -> None:
        """Stop measuring when the server stops."""
        if not self._started:
            return
        self._started = False
        LOGGER.parent = self._parent_logger
        COLLECTOR.remove(self._latest)
        await self.kernel_events.stop()
        await self.service.stop()


def main(argv: list[str] | None = None) -> Any:
    """Run a server with this extension; ``--help-all`` lists every setting."""
    return VramApp.launch_instance(argv)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
