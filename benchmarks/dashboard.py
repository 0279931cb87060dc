"""All benchmarks of the dashboard: ``python benchmarks/dashboard.py --help``.

Prints a table, and writes ``benchmarks/results/dashboard-<machine>.json``. What each figure means
is in ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.command import Command, Measured  # noqa: E402


def streaming(folder: Path, arguments: argparse.Namespace) -> Measured:
    """CPU, NVML calls, API latency and bytes, beside nvdashboard's."""
    from benchmarks import streaming as part

    points = []
    for point in part.measure(folder, quick=arguments.quick, with_peer=not arguments.no_peer):
        points.append(point)
        print(
            f"  {point.subject}, {point.clients} clients, {point.interval_s:g} s:"
            f" CPU {point.cpu_percent:.2f} %, API p99 {point.latency_p99_ms:.1f} ms",
            flush=True,
        )
    print("\n" + part.side_by_side(points) + "\n")
    return part.results(points), part.as_json(points)


def memory(_folder: Path, arguments: argparse.Namespace) -> Measured:
    """The server's memory over a simulated day, and the size of a tick."""
    from benchmarks import day as part

    return part.measure(quick=arguments.quick)


def browser(folder: Path, arguments: argparse.Namespace) -> Measured:
    """The panel's first opening, and JupyterLab's start."""
    from benchmarks import browser as part

    return part.measure(folder, quick=arguments.quick)


def kernel(folder: Path, arguments: argparse.Namespace) -> Measured:
    """The kernel's main thread, and the import of the package."""
    from benchmarks import kernel as part

    return part.measure(folder, quick=arguments.quick)


COMMAND = Command(
    "dashboard",
    "Measures jupyter_vram's dashboard, beside jupyterlab-nvdashboard.",
    {part.__name__: part for part in (streaming, memory, browser, kernel)},
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
