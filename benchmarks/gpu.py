"""What only a machine with an NVIDIA GPU can tell: ``python benchmarks/gpu.py`` (under 10 minutes).

Needs this package and, for all but the driver's own costs, a CUDA build of torch in the same
environment. Prints a table, and writes ``benchmarks/results/gpu-<machine>.json``. Ends with 2
where there is no NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import pynvml  # type: ignore[import-untyped]  # noqa: E402

from benchmarks import gpu_estimate, gpu_kernel, hardware, results  # noqa: E402
from benchmarks.results import Result  # noqa: E402
from jupyter_vram.sources.nvml import NvmlSource  # noqa: E402
from jupyter_vram.sources.source import ReadRequest  # noqa: E402

NO_GPU = 2
CALLS: dict[str, Callable[[Any], Any]] = {
    "nvmlDeviceGetMemoryInfo v1": pynvml.nvmlDeviceGetMemoryInfo,
    "nvmlDeviceGetMemoryInfo v2": lambda h: pynvml.nvmlDeviceGetMemoryInfo(
        h, version=pynvml.nvmlMemory_v2
    ),
    "nvmlDeviceGetUtilizationRates": pynvml.nvmlDeviceGetUtilizationRates,
    "nvmlDeviceGetTemperature": lambda h: pynvml.nvmlDeviceGetTemperature(
        h, pynvml.NVML_TEMPERATURE_GPU
    ),
    "nvmlDeviceGetPowerUsage": pynvml.nvmlDeviceGetPowerUsage,
    "nvmlDeviceGetEnforcedPowerLimit": pynvml.nvmlDeviceGetEnforcedPowerLimit,
    "nvmlDeviceGetComputeRunningProcesses": pynvml.nvmlDeviceGetComputeRunningProcesses,
    "nvmlDeviceGetGraphicsRunningProcesses": pynvml.nvmlDeviceGetGraphicsRunningProcesses,
    "nvmlDeviceGetMigMode": pynvml.nvmlDeviceGetMigMode,
    "nvmlDeviceGetPcieThroughput": lambda h: pynvml.nvmlDeviceGetPcieThroughput(
        h, pynvml.NVML_PCIE_UTIL_TX_BYTES
    ),
}
"""What is asked of each device, by us or (the last) by others."""


def call_costs(handle: Any, seconds: float = 1.0) -> list[Result]:
    """What each call costs on one device; an unsupported one is named with the driver's answer."""
    found = []
    for name, call in CALLS.items():
        try:
            call(handle)
        except pynvml.NVMLError as error:
            found.append(Result(part="nvml", name=name, value=None, unit="µs", note=str(error)))
            continue
        taken = _times(lambda call=call: call(handle), seconds)  # type: ignore[misc]
        found.append(
            Result(
                part="nvml",
                name=name,
                value=1e6 * median(taken),
                unit="µs",
                low=1e6 * min(taken),
                high=1e6 * results.percentile(taken, 99),
                note=f"median, least and 99th percentile of {len(taken)}",
            )
        )
    return found


def reading_costs(seconds: float = 2.0) -> list[Result]:
    """What one reading of all devices costs, as the server's poller makes it."""
    source = NvmlSource()
    found = []
    try:
        source.read(ReadRequest())
        for processes in (False, True):
            request = ReadRequest(processes=processes)
            taken = _times(lambda request=request: source.read(request), seconds)  # type: ignore[misc]
            found.append(
                Result(
                    part="nvml",
                    name=f"a reading of all devices, {'with' if processes else 'no'} processes",
                    value=1e3 * median(taken),
                    unit="ms",
                    low=1e3 * min(taken),
                    high=1e3 * results.percentile(taken, 99),
                )
            )
    finally:
        source.close()
    return found


def devices() -> list[dict[str, Any]]:
    """Each device as our source reads it, with the reasons for what is missing."""
    source = NvmlSource()
    try:
        samples = source.read(ReadRequest()).devices
    finally:
        source.close()
    return [
        {
            "name": sample.device.name,
            "total_bytes": sample.total_bytes,
            "used_bytes": sample.used_bytes,
            "free_bytes": sample.free_bytes,
            "driver_reserved_bytes": sample.driver_reserved_bytes,
            "utilization_percent": sample.utilization_percent,
            "temperature_c": sample.temperature_c,
            "power_w": sample.power_w,
            "processes": None if sample.processes is None else len(sample.processes),
            "reasons": dict(sample.reasons),
        }
        for sample in samples
    ]


def _times(call: Callable[[], Any], seconds: float, least: int = 20) -> list[float]:
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < least or (time.perf_counter() < end and len(taken) < 2000):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return taken


def first_handle() -> Any | None:
    """The first GPU's handle; ``None``, and a sentence on stderr, where there is none."""
    try:
        pynvml.nvmlInit()
        if pynvml.nvmlDeviceGetCount() > 0:
            return pynvml.nvmlDeviceGetHandleByIndex(0)
        reason = "NVIDIA's driver is here, but no GPU"
    except pynvml.NVMLError as error:
        reason = f"NVIDIA's management library says: {error}"
    print(
        f"There is no NVIDIA GPU to measure ({reason}). Run this on a machine that has one;"
        " `make bench` measures what needs none.",
        file=sys.stderr,
    )
    return None


def main() -> int:
    """0; 1 if a part could not be measured; 2 without a GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less of all: to see that it runs")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    arguments = parser.parse_args()
    handle = first_handle()
    if handle is None:
        return NO_GPU
    seen = devices()
    machine = hardware.describe(device["name"] for device in seen)
    driver = pynvml.nvmlSystemGetDriverVersion()
    machine["nvidia_driver"] = driver.decode() if isinstance(driver, bytes) else driver
    seconds = 0.2 if arguments.quick else 1.0
    date, load, began = hardware.now(), hardware.load_average(), time.monotonic()
    found = [*call_costs(handle, seconds), *reading_costs(seconds)]
    raw: dict[str, Any] = {"devices": seen}
    failed = False
    with tempfile.TemporaryDirectory(prefix="jupyter-vram-bench-") as folder:
        try:
            more, raw["kernel"] = gpu_kernel.measure(
                Path(folder), env=dict(os.environ), quick=arguments.quick
            )
        except Exception as error:  # noqa: BLE001 - the driver's figures are worth having
            failed = True
            traceback.print_exc()
            note = f"{type(error).__name__}: {error}"
            more = [Result(part="kernel", name="all of it", value=None, unit="", note=note)]
    found += more
    try:
        more, raw["estimate"] = gpu_estimate.measure(quick=arguments.quick)
    except Exception as error:  # noqa: BLE001 - as above
        failed = True
        traceback.print_exc()
        note = f"{type(error).__name__}: {error}"
        more = [Result(part="estimate", name="all of it", value=None, unit="", note=note)]
    found += more
    path = arguments.output or (
        ROOT / "benchmarks" / "results" / f"gpu-{hardware.slug(machine)}.json"
    )
    took_s = time.monotonic() - began
    part = results.Part(results=found, raw=raw, date=date, took_s=took_s, load_average=load)
    results.write(path, machine, {"gpu": part})
    print(results.table(found))
    for result in found:
        if result.value is None:
            print(f"{result.name}: {result.note}")
    print(f"{', '.join(machine['gpus'])}; driver {machine['nvidia_driver']}; written to {path}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
