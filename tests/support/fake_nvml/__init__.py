"""A stand-in for NVIDIA's management library, scripted from a test while another process uses it.

    with FakeNvml(tmp_path / "nvml", devices=2) as fake:
        fake.device(0).used_bytes = 3 * GIB
        fake.set_processes(0, [FakeProcess(os.getpid(), GIB)])
        fake.fail("nvmlDeviceGetPowerUsage", NOT_SUPPORTED)

        subprocess.Popen(command, env={**os.environ, **fake.env()})   # or, in this process:
        with fake.load_in_process():
            ...

The unmodified pynvml calls real C functions (``fake_nvml.c``), which answer from a mapped file that
this object writes. A change is seen by the next call, in every process.
"""

from support.fake_nvml.writer import (
    ALL_FUNCTIONS,
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GIB,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    MIB,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    TIMEOUT,
    UNINITIALIZED,
    UNKNOWN,
    FakeDevice,
    FakeNvml,
    FakeProcess,
)

__all__ = [
    "ALL_FUNCTIONS",
    "DRIVER_NOT_LOADED",
    "FUNCTION_NOT_FOUND",
    "GIB",
    "GPU_IS_LOST",
    "LIB_RM_VERSION_MISMATCH",
    "MIB",
    "NOT_SUPPORTED",
    "NO_PERMISSION",
    "RESET_REQUIRED",
    "TIMEOUT",
    "UNINITIALIZED",
    "UNKNOWN",
    "FakeDevice",
    "FakeNvml",
    "FakeProcess",
]
