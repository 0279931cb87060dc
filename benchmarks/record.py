"""All benchmarks of recording a cell: ``python benchmarks/record.py --help``.

Prints a table, and writes ``benchmarks/results/record-<machine>.json``. What each figure means is
in ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.command import Command, Measured  # noqa: E402


def slowdown(folder: Path, arguments: argparse.Namespace) -> Measured:
    """A training step and tiny operations under %%vram, beside the others' tools."""
    from benchmarks import recording as part

    return part.slowdown(folder, quick=arguments.quick, with_peers=not arguments.no_peer)


def events(folder: Path, arguments: argparse.Namespace) -> Measured:
    """A million events, from a snapshot's pickle to the report, beside torch's viewer."""
    from benchmarks import events as part

    return part.measure(folder, quick=arguments.quick, with_peer=not arguments.no_peer)


def calls(folder: Path, arguments: argparse.Namespace) -> Measured:
    """A cell of two million calls of a function, beside torch's profiler with stacks."""
    from benchmarks import recording as part

    return part.calls(folder, quick=arguments.quick, with_peers=not arguments.no_peer)


def extension(folder: Path, arguments: argparse.Namespace) -> Measured:
    """Loading the extension, in a process without torch."""
    from benchmarks import recording as part

    return part.extension(folder, quick=arguments.quick)


COMMAND = Command(
    "record",
    "Measures what jupyter_vram's recording costs, beside the tools that record the same.",
    {part.__name__: part for part in (slowdown, events, calls, extension)},
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
