"""What a dry run does not do for the code, and how the code is told."""

from __future__ import annotations

from jupyter_vram.errors import DryRunError
from jupyter_vram.model.estimate import Assumption

NO_EFFECT = "No effect on memory."
_notes: dict[Assumption, None] = {}


class RefusedError(DryRunError, PermissionError):
    """The code wants something that a dry run does not do.

    A `PermissionError` too: libraries that can do without go on.
    """


class NotRunError(DryRunError, FileNotFoundError):
    """The code wants to run a command: for it, there is none of that name."""


class NobodyAnswersError(DryRunError, EOFError):
    """The code asks the user."""


def refused(what: str) -> RefusedError:
    """An error that says so, and a note.

    Args:
        what: ``write /data/log.csv``.
    """
    note(f"The code wanted to {what}: a dry run does not.", NO_EFFECT)
    return RefusedError(
        f"The code wants to {what}: a dry run changes nothing outside its process. Do it in another"
        " cell."
    )


def note(text: str, effect: str) -> None:
    """Take down what the code wanted to do outside, and did not. Once for each text."""
    _notes[Assumption(text, effect)] = None


def notes() -> tuple[Assumption, ...]:
    """All that was taken down in this process."""
    return tuple(_notes)


def short(name: object) -> str:
    """A path or a command, by its end."""
    text = str(name)
    return text if len(text) <= 60 else f"…{text[-60:]}"
