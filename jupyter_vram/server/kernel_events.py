"""What this server's kernels do: start, restart, shut down. And the second way to load our side.

A kernel loads our side by itself, from a startup file of IPython. That file is not found where
the package was installed for the user alone (``pip install --user``). So when a kernel has
started and no report of it comes, it is asked to load the extension, by a request that leaves no
trace in its history, its namespace or its counter. A kernel without the package does nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import time
from collections.abc import Callable, Coroutine
from typing import Any

from jupyter_client.session import Session

from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.snapshot import ReportReading
from jupyter_vram.server.sessions import KernelSessions

log = logging.getLogger(__name__)

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
SETTLE_S = (0.2, 1.0)
"""The event comes before the kernel and its session are in the server's lists."""
GIVE_UP_S = 120.0
REPLY_S = 30.0
STARTING = ("starting", "restarting", "autorestarting", "unknown")

# One expression, since a statement would leave its names behind. `silent` shows no result.
LOAD = (
    "__import__('os').environ.get('JUPYTER_VRAM_KERNEL') != '0'"
    " and __import__('importlib.util').util.find_spec('jupyter_vram') is not None"
    " and __import__('IPython').get_ipython() is not None"
    " and __import__('IPython').get_ipython().extension_manager.load_extension('jupyter_vram')"
)


class KernelEvents:
    """Listens to the server's event logger. `start` and `stop` on the event loop."""

    def __init__(
        self,
        event_logger: Any,
        kernel_manager: Any,
        sessions: KernelSessions,
        read_report: Callable[[str], ReportReading | None],
        load_after_s: float | None,
    ) -> None:
        """`load_after_s`: how long a kernel's own report is awaited; ``None``: never loaded."""
        self._event_logger = event_logger
        self._kernel_manager = kernel_manager
        self._sessions = sessions
        self._read_report = read_report
        self._load_after_s = load_after_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Listen."""
        self._event_logger.add_listener(schema_id=KERNEL_ACTIONS, listener=self._on_action)

    async def stop(self) -> None:
        """Listen no more, and ask no kernel any more."""
        with contextlib.suppress(KeyError):  # no kernel was started, so no schema is known
            self._event_logger.remove_listener(schema_id=KERNEL_ACTIONS, listener=self._on_action)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _on_action(self, *, data: dict[str, Any], **_: Any) -> None:
        # Called inside the kernel's start: a signature that does not fit would break that.
        if data.get("status") == "error" or data.get("action") == "interrupt":
            return
        self._spawn(self._refresh())
        kernel_id = data.get("kernel_id")
        started = data.get("action") in ("start", "restart")
        if kernel_id and started and self._load_after_s is not None:
            # A restart is told as a start, too.
            earlier = self._loading.get(kernel_id)
            if earlier is not None:
                earlier.cancel()
            task = self._spawn(self._load_unless_loaded(kernel_id, self._load_after_s))
            self._loading = {k: t for k, t in self._loading.items() if not t.done()}
            self._loading[kernel_id] = task

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _refresh(self) -> None:
        for pause_s in SETTLE_S:
            await asyncio.sleep(pause_s)
            await self._sessions.refresh()

    async def _load_unless_loaded(self, kernel_id: str, after_s: float) -> None:
        began = time.time()
        ready_at: float | None = None
        while time.time() - began < GIVE_UP_S:
            await asyncio.sleep(min(after_s, 1.0))
            session = self._session(kernel_id)
            if session is None or session.state in STARTING:
                continue
            if session.pid is None or (session.language or "").lower() != "python":
                return
            ready_at = ready_at or time.time()
            if await self._has_reported(session, since=began):
                return
            if time.time() - ready_at >= after_s:
                await self._load(kernel_id)
                return

    def _session(self, kernel_id: str) -> KernelSession | None:
        return next((s for s in self._sessions.current() if s.kernel_id == kernel_id), None)

    async def _has_reported(self, session: KernelSession, since: float) -> bool:
        if session.report_path is None:
            return False
        loop = asyncio.get_running_loop()
        reading = await loop.run_in_executor(None, self._read_report, session.report_path)
        if reading is None:
            return False
        # What a killed kernel left behind is not a report of the one that was started now.
        return reading.report is None or reading.report.written_at >= since

    async def _load(self, kernel_id: str) -> None:
        try:
            manager = self._kernel_manager.get_kernel(kernel_id)
        except KeyError:
            return
        # Of its own: a kernel hears only the first of two clients with one session's identity.
        session = Session(
            key=manager.session.key, signature_scheme=manager.session.signature_scheme
        )
        client = manager.client(session=session)
        client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=False)
        try:
            client.execute(
                LOAD, silent=True, store_history=False, allow_stdin=False, stop_on_error=False
            )
            # A busy kernel does it later: the request waits there, nothing here does.
            await client.get_shell_msg(timeout=REPLY_S)
        except queue.Empty:
            log.debug("Kernel %s has not answered the request to load our side yet.", kernel_id)
        finally:
            client.stop_channels()
