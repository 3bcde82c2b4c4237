"""The guards that are taken out one by one stand where they are looked for: else taking them out proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.guards import GUARDS, Guard
from tests.mutants.guards_effects import EFFECT_GUARDS

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("guard", [*GUARDS, *EFFECT_GUARDS], ids=lambda guard: guard.name)
def test_a_guard_stands_where_it_is_looked_for(guard: Guard) -> None:
    assert (REPOSITORY / guard.file).read_text(encoding="utf-8").count(guard.text) == 1
    assert all((REPOSITORY / test.partition("::")[0]).exists() for test in guard.tests)
