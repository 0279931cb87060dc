"""What the commands that measure share: their options, their parts, where the figures go."""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import hardware, results
from benchmarks.results import Part, Result

ROOT = Path(__file__).resolve().parent.parent

Measured = tuple[list[Result], Any]
MeasurePart = Callable[[Path, argparse.Namespace], Measured]


@dataclass(frozen=True, slots=True)
class Command:
    """A script that measures some parts, prints a table and writes JSON."""

    name: str
    """Begins the file's name: ``dashboard-<machine>.json``."""
    description: str
    parts: Mapping[str, MeasurePart]
    """The first line of a part's docstring says what it measures."""

    def parse(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description,
            epilog="Parts: "
            + "; ".join(f"{name}: {part.__doc__}" for name, part in self.parts.items()),
        )
        parser.add_argument("--only", help="some parts, with commas between")
        parser.add_argument("--quick", action="store_true", help="less of all: to see that it runs")
        parser.add_argument("--no-peer", action="store_true", help="without the others' tools")
        parser.add_argument("--output", type=Path, help="where the JSON goes")
        parsed = parser.parse_args(arguments)
        parsed.parts = parsed.only.split(",") if parsed.only else list(self.parts)
        unknown = set(parsed.parts) - set(self.parts)
        if unknown:
            parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(self.parts)}")
        return parsed

    def output_path(self, arguments: argparse.Namespace, machine: str) -> Path:
        """Where the JSON goes; what is not the whole of a part does not go where parts are kept."""
        if arguments.output:
            return Path(arguments.output)
        is_whole = not (arguments.quick or arguments.no_peer)
        name = f"{'' if is_whole else 'part-'}{self.name}-{machine}.json"
        return ROOT / "benchmarks" / "results" / name

    def measure(self, name: str, folder: Path, arguments: argparse.Namespace) -> tuple[Part, bool]:
        """One part, and whether it could be measured."""
        print(f"{name}: {self.parts[name].__doc__}", flush=True)
        date, load, began = hardware.now(), hardware.load_average(), time.monotonic()
        raw: Any = None
        failed = False
        try:
            found, raw = self.parts[name](folder, arguments)
        except Exception as error:  # noqa: BLE001 - the other parts are worth having
            failed = True
            traceback.print_exc()
            note = f"{type(error).__name__}: {error}"
            found = [Result(part=name, name="all of it", value=None, unit="", note=note)]
        took_s = time.monotonic() - began
        part = Part(results=found, raw=raw, date=date, took_s=took_s, load_average=load)
        return part, not failed

    def main(self) -> int:
        """0, or 1 if a part could not be measured; a missed goal is a result like any other."""
        arguments = self.parse()
        machine = hardware.describe()
        path = self.output_path(arguments, hardware.slug(machine))
        parts: dict[str, Part] = {}
        complete = True
        with tempfile.TemporaryDirectory(prefix="jupyter-vram-bench-") as folder:
            for name in arguments.parts:
                home = Path(folder) / name
                home.mkdir()
                parts[name], measured = self.measure(name, home, arguments)
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
