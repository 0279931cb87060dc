"""What all tests share: the path to the support package, its fixtures, the order of the tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
BROWSER_TESTS = TESTS / "ui"
SUPPORT_FIXTURES = "support.fixtures"

if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixtures of the support package, unless it is cut out of this checkout."""
    if importlib.util.find_spec(SUPPORT_FIXTURES) is not None:
        config.pluginmanager.import_plugin(SUPPORT_FIXTURES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the browser tests last: Playwright's event loop and pytest-jupyter's can't be mixed."""
    items.sort(key=lambda item: BROWSER_TESTS in item.path.parents)
