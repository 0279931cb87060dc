"""Every relative link in the pages leads to a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def relative_links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [target.split("#")[0] for target in targets if not re.match(r"\w+:|#", target)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in relative_links(page) if not (page.parent / link).exists()]
    assert missing == []


def test_readme_has_links() -> None:
    assert len(relative_links(ROOT / "README.md")) >= 5
