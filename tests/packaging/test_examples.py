"""Examples import what an agent author may import, and nothing from inside."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.tree import ROOT

OPEN = ("signoff.domain", "signoff.workers")
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def imports(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each imported module with the names taken from it; none for `import module`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield node.module or "", tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)


def trespasses(source: str) -> list[str]:
    ours = [(module, names) for module, names in imports(source) if module.split(".")[0] == "signoff"]
    return [f"{module}: {names or 'whole'}" for module, names in ours if not allowed(module, names)]


def allowed(module: str, names: tuple[str, ...]) -> bool:
    if module not in OPEN or not names:
        return False
    return set(names) <= set(importlib.import_module(module).__all__)


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_imports_public_names_only(path: Path) -> None:
    assert trespasses(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from signoff.infra.settings import Settings",
        "from signoff.domain.reviews import Review",
        "import signoff.workers",
        "from signoff import infra",
        "def f():\n    import signoff.infra",
    ],
)
def test_an_import_from_inside_is_found(source: str) -> None:
    assert len(trespasses(source)) == 1
