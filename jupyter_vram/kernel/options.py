"""What stands after ``%%vram`` and ``%vram``: options, and for the latter a statement."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

if TYPE_CHECKING:
    from jupyter_vram.model.report_data import By

OPTIONS_USAGE = """\
  --name N       Keep the report under this name, for --compare.
  --device D     Report on this device (cpu, cuda, cuda:1); else on the one that was used most.
  --no-plot      Leave the timeline out.
  --detail BY    What the report opens with: line, module, category or op.
  --save FILE    Write the report to a file as well; its ending says in which format.
  --compare N    Show the differences to the report of this name.
  --as VAR       Bind the report to this variable.
  --dry-run      Don't run it: say what it would need, and on which GPUs it fits. And then:
  --gpu GPU      The GPU that it is to fit: "RTX 4090", A100-80GB, 24GB.
  --vary V       A variable with several values: batch=1..64. Twice for two variables.
  --timeout S    Give up after so many seconds; 120 else.
  --isolated     In a new process, instead of a fork of this one."""
USAGE = f"""\
%%vram [options]            Record the cell: its peak, its timeline, and whose the bytes were.
%vram [options] STATEMENT   Record one statement.
%%vram_estimate, %vram_estimate    The same with --dry-run.

{OPTIONS_USAGE}"""

_WORD = re.compile(r"""\s*(?P<name>--[^\s=]*)(?P<equals>=?)""")
_VALUE = re.compile(r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>\S+))(?=\s|$)""")
_DEVICE = re.compile(r"(cpu|cuda(:\d+)?|\d+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a recording is asked for. Each is a wish of the user's; ``None``: none was made."""

    name: str | None = None
    device: str | None = None
    plot: bool = True
    detail: By | None = None
    save: str | None = None
    """A path, as written."""
    compare: str | None = None
    variable: str | None = None
    dry_run: bool = False
    gpu: str | None = None
    vary: tuple[str, ...] = ()
    """As written: ``batch=1..64``."""
    timeout_s: float | None = None
    isolated: bool = False


_VALUED = ("--name", "--device", "--detail", "--save", "--compare", "--as")
_DRY_RUN = "--dry-run"
_FLAGS = ("--no-plot", _DRY_RUN, "--isolated")
_OF_DRY_RUNS = ("--gpu", "--vary", "--timeout", "--isolated")


def parse_options(text: str, *, dry_run: bool = False) -> Options:
    """Read the rest of a ``%%vram`` line. Raises `UsageError`, which tells the usage.

    `dry_run`: it is one without being told so.
    """
    options, rest = split_options(text, dry_run=dry_run)
    if rest:
        raise _usage_error(f"%%vram takes options only, not {rest!r}")
    return options


def split_options(text: str, *, dry_run: bool = False) -> tuple[Options, str]:
    """The options at the beginning of a line, and what comes after, untouched but for its ends.

    Raises `UsageError`, which tells the usage.
    """
    given: dict[str, str] = {}
    flags = {_DRY_RUN} if dry_run else set[str]()
    vary: list[str] = []
    position = 0
    while word := _WORD.match(text, position):
        name, position = word["name"], word.end()
        if name == "--" and not word["equals"]:
            break  # as everywhere: no options from here on
        if name in _FLAGS and not word["equals"]:
            flags.add(name)
            continue
        if name not in _VALUED and name not in _OF_DRY_RUNS:
            raise _usage_error(f"%vram knows no option {name}")
        value = _VALUE.match(text, position)
        if value is None or (value["bare"] or "").startswith("--"):
            raise _usage_error(f"{name} needs a value")
        if name == "--vary":
            vary.append(value[value.lastgroup or "bare"])
            position = value.end()
            continue
        if name in given:
            raise _usage_error(f"{name} stands twice")
        given[name], position = value[value.lastgroup or "bare"], value.end()
        if not given[name]:
            raise _usage_error(f"{name} needs a value that is not empty")
    if _DRY_RUN not in flags:
        strays = [name for name in _OF_DRY_RUNS if name in given or name in flags]
        strays += ["--vary"] if vary else []
        if strays:
            raise _usage_error(f"{strays[0]} goes with --dry-run only")
    options = Options(
        name=given.get("--name"),
        device=_device(given.get("--device")),
        plot="--no-plot" not in flags,
        detail=_detail(given.get("--detail")),
        save=given.get("--save"),
        compare=given.get("--compare"),
        variable=_variable(given.get("--as")),
        dry_run=_DRY_RUN in flags,
        gpu=given.get("--gpu"),
        vary=tuple(vary),
        timeout_s=_seconds(given.get("--timeout")),
        isolated="--isolated" in flags,
    )
    return options, text[position:].strip()


def _detail(value: str | None) -> By | None:
    if value is None:
        return None
    # Imported here, since every kernel that starts imports this file.
    from jupyter_vram.model.report_data import DIMENSIONS

    for dimension in DIMENSIONS:
        if value == dimension:
            return dimension
    raise _usage_error(f"--detail is one of {', '.join(DIMENSIONS)}; {value!r} is none")


def _device(value: str | None) -> str | None:
    if value is not None and not _DEVICE.match(value):
        raise _usage_error(f"--device is cpu, cuda, cuda:0 or just its index; not {value!r}")
    return value


def _seconds(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise _usage_error(f"--timeout is a number of seconds; {value!r} is none")
    return seconds


def _variable(value: str | None) -> str | None:
    if value is not None and (not value.isidentifier() or keyword.iskeyword(value)):
        raise _usage_error(f"--as needs a variable's name; {value!r} is none")
    return value


def _usage_error(problem: str) -> UsageError:
    return UsageError(f"{problem}. Usage:\n\n{USAGE}")
