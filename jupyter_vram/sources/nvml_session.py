"""Keeps NVML initialised: opens it when it is needed, and again when it broke."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from jupyter_vram.errors import NvmlUnavailableError
from jupyter_vram.sources.nvml_errors import NvmlRefusal, unavailable
from jupyter_vram.sources.nvml_library import NvmlLibrary
from jupyter_vram.sources.retry import Retry

_log = logging.getLogger(__name__)


class NvmlSession:
    """One initialisation of NVML at a time.

    NVML counts initialisations per process: where another extension of the same server holds one,
    shutting ours down does not restart the library.
    """

    def __init__(self, load: Callable[[], Any], clock: Callable[[], float]) -> None:
        """`load` gives the module pynvml, or raises `NvmlUnavailableError`."""
        self._load = load
        self._clock = clock
        self._retry = Retry(clock)
        self._failure: NvmlUnavailableError | None = None
        self._library: NvmlLibrary | None = None

    @property
    def is_open(self) -> bool:
        """Is NVML initialised, as far as is known?"""
        return self._library is not None

    def library(self, *, watched: bool) -> NvmlLibrary:
        """The library, opened if it is not and a try is due.

        Raises:
            NvmlUnavailableError: it can't be opened, or it is too early for another try.
        """
        if self._library is not None:
            return self._library
        if self._failure is not None and not self._retry.due(watched=watched):
            # A new one each time: an exception that is raised again grows a longer traceback.
            raise NvmlUnavailableError(self._failure.code, str(self._failure))
        return self.reopen()

    def reopen(self) -> NvmlLibrary:
        """Shut down and initialise again, now.

        Raises:
            NvmlUnavailableError: it can't be opened.
        """
        self.shut_down()
        started = self._clock()
        try:
            library = NvmlLibrary(self._load())
            library.ask("nvmlInit")
        except NvmlRefusal as refusal:
            raise self._failed(unavailable(refusal), self._clock() - started) from refusal
        except NvmlUnavailableError as failure:
            raise self._failed(failure, self._clock() - started) from None
        self._library = library
        return library

    def works(self) -> None:
        """Devices were read: whatever was wrong is over."""
        if self._failure is not None:
            _log.info("NVML works again.")
            self._failure = None
        self._retry.succeeded()

    def broke(self, refusal: NvmlRefusal) -> NvmlUnavailableError:
        """Initialising helped nothing: shut down, and wait before the next try."""
        self.shut_down()
        return self._failed(unavailable(refusal), 0.0)

    def shut_down(self) -> None:
        """Give NVML back, if it is open. Not a failure: it may be opened again at once."""
        library, self._library = self._library, None
        if library is not None:
            # A driver that went away refuses this too; there is then nothing to give back.
            with contextlib.suppress(NvmlRefusal):
                library.ask("nvmlShutdown")

    def _failed(self, failure: NvmlUnavailableError, cost_s: float) -> NvmlUnavailableError:
        if self._failure is None or self._failure.code != failure.code:
            # A machine without an NVIDIA GPU is no cause for a warning.
            absent = failure.code == "nvml-library-missing"
            _log.log(logging.INFO if absent else logging.WARNING, "%s", failure)
        self._failure = NvmlUnavailableError(failure.code, str(failure))
        self._retry.failed(cost_s)
        return failure
