"""The calling convention, over bindings of other versions than the installed one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_vram.sources.nvml_errors import (
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    TIMEOUT,
    NvmlRefusal,
)
from jupyter_vram.sources.nvml_library import Memory, NvmlLibrary


class NVMLError(Exception):
    """As pynvml's: unhashable, and comparing it with ``None`` raises."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


class NVMLLibraryMismatchError(Exception):
    pass


def binding(**functions: Any) -> SimpleNamespace:
    return SimpleNamespace(
        NVMLError=NVMLError, NVMLLibraryMismatchError=NVMLLibraryMismatchError, **functions
    )


def raising(error: Exception) -> Any:
    def function(*arguments: object) -> None:
        raise error

    return function


def test_a_refusal_carries_the_code() -> None:
    library = NvmlLibrary(binding(f=raising(NVMLError(TIMEOUT))))
    with pytest.raises(NvmlRefusal) as caught:
        library.ask("f")
    assert caught.value.code == TIMEOUT


def test_a_mismatch_of_binding_and_library_is_an_absent_function() -> None:
    calls = []

    def function(*arguments: object) -> None:
        calls.append(arguments)
        raise NVMLLibraryMismatchError("unversioned function")

    library = NvmlLibrary(binding(f=function))
    for _ in range(2):
        with pytest.raises(NvmlRefusal) as caught:
            library.ask("f")
        assert caught.value.code == FUNCTION_NOT_FOUND
    assert len(calls) == 1


def test_a_binding_without_a_function_or_without_mismatches() -> None:
    library = NvmlLibrary(SimpleNamespace(NVMLError=NVMLError))
    with pytest.raises(NvmlRefusal) as caught:
        library.ask("nvmlDeviceGetName")
    assert caught.value.code == FUNCTION_NOT_FOUND


def undecodable() -> Exception:
    try:
        b"RTX \xe9".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: "RTX ", "RTX"),
        (lambda: b"RTX", "RTX"),
        (lambda: b"RTX \xe9", "RTX \ufffd"),
        (raising(undecodable()), "RTX \ufffd"),
    ],
)
def test_names_as_text_bytes_or_neither(function: Any, name: str) -> None:
    assert NvmlLibrary(binding(nvmlDeviceGetName=function)).ask_text("nvmlDeviceGetName") == name


def test_a_binding_from_before_memory_version_2() -> None:
    def memory(handle: object) -> SimpleNamespace:
        return SimpleNamespace(total=10, used=4, free=6)

    library = NvmlLibrary(binding(nvmlDeviceGetMemoryInfo=memory))
    assert library.memory("handle") == library.memory("handle") == Memory(10, 4, 6, None)


def test_a_list_that_grew_while_it_was_read_is_read_again() -> None:
    answers: list[Any] = [NVMLError(INSUFFICIENT_SIZE), [SimpleNamespace(pid=5, usedGpuMemory=9)]]

    def processes(handle: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    library = NvmlLibrary(binding(nvmlDeviceGetComputeRunningProcesses_v3=processes))
    assert library.processes("Compute", "handle") == [(5, 9)]


def test_a_list_that_keeps_growing_is_given_up() -> None:
    function = raising(NVMLError(INSUFFICIENT_SIZE))
    library = NvmlLibrary(binding(nvmlDeviceGetComputeRunningProcesses_v3=function))
    with pytest.raises(NvmlRefusal) as caught:
        library.processes("Compute", "handle")
    assert caught.value.code == INSUFFICIENT_SIZE
