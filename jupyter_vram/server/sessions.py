"""Which kernels this server runs, in which processes, and which documents use them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_core.utils import ensure_async

from jupyter_vram.model.kernel_session import KernelSession

log = logging.getLogger(__name__)

CONSOLE_PATH = re.compile(r"console-(\d+)-")
"""JupyterLab gives a console a path of this form, and no file."""

SessionModel = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Known:
    manager: Any
    session: KernelSession


class KernelSessions:
    """Keeps the list of kernels up to date on the event loop; `current` is for the poller's thread.

    What changes rarely (documents, names) is looked up by `refresh`; a kernel's process and state
    are plain attributes of its manager, and read each time.
    """

    def __init__(
        self,
        kernel_manager: Any,
        session_manager: Any,
        report_path: Callable[[str], Any],
    ) -> None:
        """`report_path` tells from a kernel's connection file where its report is."""
        self._kernel_manager = kernel_manager
        self._session_manager = session_manager
        self._report_path = report_path
        self._known: tuple[_Known, ...] = ()
        self._refreshed = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None
        self._failed = False

    def current(self) -> tuple[KernelSession, ...]:
        """The kernels as they are now. For any thread; does no I/O."""
        return tuple(_now(known) for known in self._known)

    @property
    def age_s(self) -> float:
        """Seconds since the last `refresh`."""
        return time.monotonic() - self._refreshed

    def refresh(self) -> asyncio.Task[None]:
        """Look all up anew; while that goes on, another call joins it. Never raises."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        try:
            models = await ensure_async(self._session_manager.list_sessions())
            self._known = tuple(self._look_up(models))
            self._failed = False
        except Exception:
            # A kernel that ends meanwhile, or a gateway that does not answer: the old list holds.
            if not self._failed:
                log.exception("The list of kernels could not be read; the last one is kept.")
            self._failed = True
        self._refreshed = time.monotonic()

    def _look_up(self, models: Iterable[SessionModel]) -> Iterable[_Known]:
        by_kernel: dict[str, list[SessionModel]] = {}
        for model in models:
            by_kernel.setdefault(model["kernel"]["id"], []).append(model)
        kernel_ids = list(self._kernel_manager.list_kernel_ids())
        names = kernel_names({id_: by_kernel.get(id_, []) for id_ in kernel_ids})
        for kernel_id in kernel_ids:
            try:
                manager = self._kernel_manager.get_kernel(kernel_id)
            except KeyError:
                continue
            connection_file = getattr(manager, "connection_file", "")
            session = KernelSession(
                kernel_id=kernel_id,
                pid=_pid(manager),
                name=names[kernel_id],
                paths=tuple(model["path"] for model in by_kernel.get(kernel_id, ())),
                state=_state(manager),
                language=_language(manager),
                report_path=str(self._report_path(connection_file)) if connection_file else None,
            )
            yield _Known(manager, session)


def kernel_names(models: Mapping[str, Sequence[SessionModel]]) -> dict[str, str]:
    """For each kernel id a name for people, from the sessions that use the kernel.

    Notebooks of the same name in several folders are told apart by their paths.
    """
    leading = {kernel_id: _leading(sessions) for kernel_id, sessions in models.items()}
    short = {
        kernel_id: f"kernel {kernel_id[:8]} (no notebook)" if model is None else _name(model)
        for kernel_id, model in leading.items()
    }
    counts = Counter(short.values())
    return {
        kernel_id: name if model is None or counts[name] == 1 else _long_name(model, name)
        for kernel_id, name in short.items()
        for model in (leading[kernel_id],)
    }


def _leading(sessions: Sequence[SessionModel]) -> SessionModel | None:
    # A notebook names its kernel, even where a console was opened on it first.
    return next((s for s in sessions if s.get("type") == "notebook"), next(iter(sessions), None))


def _name(model: SessionModel) -> str:
    if model.get("type") == "console":
        numbered = CONSOLE_PATH.search(model["path"])
        return f"console {numbered[1]}" if numbered else model.get("name") or "console"
    # A drive of another contents manager ("RTC:") is no part of a file's name.
    path = str(model["path"]).split(":", 1)[-1]
    return PurePosixPath(path).name or str(model.get("name") or "untitled")


def _long_name(model: SessionModel, name: str) -> str:
    if model.get("type") == "console":
        return f"{name} ({model['kernel']['id'][:8]})"
    return str(model["path"])


def _now(known: _Known) -> KernelSession:
    pid, state = _pid(known.manager), _state(known.manager)
    if (pid, state) == (known.session.pid, known.session.state):
        return known.session
    return dataclasses.replace(known.session, pid=pid, state=state)


def _pid(manager: Any) -> int | None:
    # Other provisioners run kernels elsewhere: their pid is another machine's.
    provisioner = getattr(manager, "provisioner", None)
    if not isinstance(provisioner, LocalProvisioner):
        return None
    pid = provisioner.pid
    return pid if isinstance(pid, int) and pid > 0 else None


def _state(manager: Any) -> str:
    return getattr(manager, "execution_state", None) or "unknown"


def _language(manager: Any) -> str | None:
    if getattr(manager, "provisioner", None) is None:
        return None  # a gateway's: asking for its spec would be a request to the gateway
    return getattr(manager.kernel_spec, "language", None) or None
