"""All benchmarks of the dashboard: ``make bench``, or ``python benchmarks/dashboard.py --help``.

Prints a table, and writes ``benchmarks/results/dashboard-<machine>.json``. What each figure means
is in ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks import hardware, results  # noqa: E402
from benchmarks.results import Part, Result  # noqa: E402

Measured = tuple[list[Result], Any]


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


PARTS: dict[str, Callable[[Path, argparse.Namespace], Measured]] = {
    part.__name__: part for part in (streaming, memory, browser, kernel)
}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measures jupyter_vram's dashboard, beside jupyterlab-nvdashboard.",
        epilog="Parts: " + "; ".join(f"{name}: {part.__doc__}" for name, part in PARTS.items()),
    )
    parser.add_argument("--only", help="some parts, with commas between: streaming,kernel")
    parser.add_argument("--quick", action="store_true", help="less of all: to see that it runs")
    parser.add_argument("--no-peer", action="store_true", help="without nvdashboard")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    parsed = parser.parse_args(arguments)
    parsed.parts = parsed.only.split(",") if parsed.only else list(PARTS)
    unknown = set(parsed.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return parsed


def output_path(arguments: argparse.Namespace, machine: str) -> Path:
    """Where the JSON goes; what is not the whole of a part does not go where parts are kept."""
    if arguments.output:
        return Path(arguments.output)
    is_whole = not (arguments.quick or arguments.no_peer)
    return (
        ROOT / "benchmarks" / "results" / f"{'' if is_whole else 'part-'}dashboard-{machine}.json"
    )


def measure(name: str, folder: Path, arguments: argparse.Namespace) -> tuple[Part, bool]:
    """One part, and whether it could be measured."""
    print(f"{name}: {PARTS[name].__doc__}", flush=True)
    date, load, began = hardware.now(), hardware.load_average(), time.monotonic()
    raw: Any = None
    failed = False
    try:
        found, raw = PARTS[name](folder, arguments)
    except Exception as error:  # noqa: BLE001 - the other parts are worth having
        failed = True
        traceback.print_exc()
        note = f"{type(error).__name__}: {error}"
        found = [Result(part=name, name="all of it", value=None, unit="", note=note)]
    took_s = time.monotonic() - began
    part = Part(results=found, raw=raw, date=date, took_s=took_s, load_average=load)
    return part, not failed


def main() -> int:
    """0, or 1 if a part could not be measured; a missed goal is a result like any other."""
    arguments = parse()
    machine = hardware.describe()
    path = output_path(arguments, hardware.slug(machine))
    parts: dict[str, Part] = {}
    complete = True
    with tempfile.TemporaryDirectory(prefix="jupyter-vram-bench-") as folder:
        for name in arguments.parts:
            home = Path(folder) / name
            home.mkdir()
            parts[name], measured = measure(name, home, arguments)
            complete = complete and measured
            # After each: what was measured outlives an interruption of the next.
            results.write(path, machine, parts)
    found = [result for part in parts.values() for result in part.results]
    print("\n" + results.table(found) + "\n")
    for result in found:
        if result.note and result.verdict not in ("", "met"):
            print(f"{result.verdict}: {result.name}: {result.note}")
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['os']}, Python", end=" ")
    print(machine["python"])
    for name, part in parts.items():
        print(f"{name}: {part.took_s:.0f} s, load average before: {part.load_average:.1f}")
    print(f"Written to {path}")
    return int(not complete)


if __name__ == "__main__":
    sys.exit(main())
