"""The table of faults is whole: each row has tests, which are there, or a reason why it has none."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.faults.rows import FAULTS, ROWS

ROOT = Path(__file__).parents[2]


def test_every_row_is_there_in_order() -> None:
    assert list(ROWS) == [f"R{number}" for number in range(1, 29)]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_tests_or_a_reason(name: str) -> None:
    row = ROWS[name]
    assert row.tests or row.missing
    for test in row.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).is_file(), file
        names = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if _is_function(node)}
        assert function in names if function else any(found.startswith("test_") for found in names), test


def test_every_file_of_faults_is_in_the_table() -> None:
    named = {test.partition("::")[0] for row in ROWS.values() for test in row.tests}
    files = {f"{FAULTS}/{path.name}" for path in (ROOT / FAULTS).glob("test_*.py")}
    assert files <= named


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
