"""The words that the database allows are the words of the domain."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from signoff.domain.authority import PrincipalKind, Right
from signoff.domain.decisions import NextStep
from signoff.domain.effects import DENIES_HAPPENING, EffectClass, EffectStatus
from signoff.domain.jobs import ENDED, STARTED, JobStatus
from signoff.domain.policy import DecisionType
from signoff.domain.reviews import ItemStatus, ReviewStatus

CHECKS = """SELECT pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = %s::regclass AND contype = 'c' ORDER BY conname"""


@pytest.fixture
def conn(template_database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(template_database, autocommit=True) as conn:
        yield conn


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("jobs", set(JobStatus)),
        ("jobs", set(ENDED)),
        ("reviews", set(ReviewStatus)),
        ("items", set(ItemStatus)),
        ("effects", set(EffectStatus)),
        ("effects", set(EffectClass)),
        ("effects", set(DENIES_HAPPENING)),
        ("decisions", set(DecisionType)),
        ("decisions", set(NextStep)),
        ("principals", set(PrincipalKind)),
        ("principals", set(Right)),
    ],
)
def test_a_check_lists_exactly_the_domains_words(conn: psycopg.Connection, table: str, words: set[str]) -> None:
    checks = [_words(row[0]) for row in conn.execute(CHECKS, (f"signoff.{table}",))]
    assert {str(word) for word in words} in checks


@pytest.mark.parametrize(
    ("table", "column"),
    [("jobs", "status"), ("reviews", "status"), ("items", "status"), ("effects", "status"), ("decisions", "type")],
)
def test_each_state_has_a_check(conn: psycopg.Connection, table: str, column: str) -> None:
    checks = [row[0] for row in conn.execute(CHECKS, (f"signoff.{table}",))]
    assert any(check.startswith(f"CHECK (({column} = ANY") for check in checks)


def test_the_index_of_started_jobs_lists_the_started_states(conn: psycopg.Connection) -> None:
    query = "SELECT indexdef FROM pg_indexes WHERE indexname = 'one_started_job_per_thread'"
    row = conn.execute(query).fetchone()
    assert row is not None
    assert _words(row[0]) == {str(word) for word in STARTED}


def _words(definition: str) -> set[str]:
    return set(re.findall(r"'(\w+)'", definition))
