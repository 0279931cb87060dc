"""The floors of docs/architecture.md hold: imports point down, and heavy things stay out."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "jupyter_vram"
FLOORS = {
    "errors": -1,
    "_version": -1,
    "model": 0,
    "sources": 1,
    "recorders": 2,
    "dry_run": 2,
    "analysis": 3,
    "render": 4,
    "report": 4,
    "reports": 4,
    "variants": 4,
    "estimating": 4,
    "kernel": 5,
    "server": 5,
}
# Within floor 5 the two shells share nothing but what lies below.
SHELLS = {"kernel", "server"}


def modules() -> list[Path]:
    return sorted(
        path
        for path in PACKAGE.rglob("*.py")
        if "labextension" not in path.relative_to(PACKAGE).parts and path.name != "_version.py"
    )


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it, but for type checking only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    here = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if here == "__init__":
        return  # the public door: it imports lazily from every floor
    for module in imports(path):
        if module.split(".")[0] != "jupyter_vram":
            continue
        there = package_of(module)
        if there == "__version__":
            continue
        assert there in FLOORS, f"{path.name} imports {module}: on which floor is it?"
        assert FLOORS[there] <= FLOORS[here], f"{here} must not import {module}"
        if here in SHELLS:
            assert there == here or there not in SHELLS, f"{here} must not import {module}"


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("pynvml", {"sources/nvml.py"}),
        (
            "psutil",
            {
                *("sources/host.py", "sources/processes.py", "sources/own_process.py"),
                "sources/child_process.py",
            },
        ),
        ("torch", {"sources/torch_profiler.py", "dry_run/"}),
        ("prometheus_client", {"server/metrics.py"}),
    ],
)
def test_foreign_library_has_one_importer(module: str, allowed: set[str]) -> None:
    importers = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if any(name.split(".")[0] == module for name in imports(path))
    }
    folders = tuple(path for path in allowed if path.endswith("/"))
    assert {path for path in importers if not path.startswith(folders)} <= allowed


def test_torchs_memory_calls_have_one_caller() -> None:
    calls = {"memory_stats", "memory_stats_as_nested_dict", "memory_allocated", "memory_reserved"}
    callers = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in calls
    }
    assert callers == {"sources/torch_allocator.py"}


@pytest.mark.parametrize("floor", ["analysis", "render", "model"])
def test_pure_floors_have_no_clock_and_no_device(floor: str) -> None:
    impure = {"time", "datetime", "os", "socket", "subprocess", "threading", "random", "asyncio"}
    for path in (PACKAGE / floor).rglob("*.py"):
        assert not impure & {name.split(".")[0] for name in imports(path)}, path


def test_inner_packages_have_empty_init_files() -> None:
    inner = [path for path in modules() if path.name == "__init__.py" and path.parent != PACKAGE]
    assert inner
    assert [path for path in inner if path.read_text().strip()] == []


def loaded_after(statement: str) -> set[str]:
    """The top-level modules that are loaded after a statement, in a new interpreter."""
    code = f"{statement}\nimport sys\nprint(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(result.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "plotly", "jupyter_server", "tornado", "IPython", "psutil", "pynvml"}
    assert not heavy & loaded_after("import jupyter_vram")


def test_server_loads_neither_torch_nor_ipython() -> None:
    assert not {"torch", "IPython"} & loaded_after(
        "import jupyter_vram.server.app, jupyter_vram.server.routes, jupyter_vram.server.stream"
    )


def test_kernel_side_loads_no_server() -> None:
    assert not {"jupyter_server", "tornado", "torch", "numpy"} & loaded_after(
        "import jupyter_vram.kernel.reporter, jupyter_vram.kernel.cells"
    )
