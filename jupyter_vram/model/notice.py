"""Sentences for the user about what is missing or wrong, each with a stable code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, order=True)
class Notice:
    """One sentence that says what is the matter and what to do; `code` is for programs."""

    code: str
    severity: Severity
    message: str
