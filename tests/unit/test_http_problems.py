"""One table from errors to statuses, and every code written down."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from signoff.domain import errors
from signoff.domain.errors import SignoffError
from signoff.infra.http.problems import CODES, MEDIA_TYPE, STATUS, problem_of, status_of

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
RUN_TIME = {"lease_lost", "digest_mismatch", "cannot_resume", "error"}


def tree() -> list[type[SignoffError]]:
    """Every class of the tree; what other modules derive for themselves keeps the code of its parent."""
    kinds = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in kinds if issubclass(kind, SignoffError)]


def documented() -> dict[str, int]:
    """Code -> status, from the table of the reference page."""
    rows = re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \|", REFERENCE.read_text(), re.MULTILINE)
    assert len(rows) == len(dict(rows)), "a code stands twice in the reference"
    return {code: int(status) for code, status in rows}


@pytest.mark.parametrize("kind", tree(), ids=lambda kind: kind.code)
def test_every_error_has_a_status_and_is_documented(kind: type[SignoffError]) -> None:
    status = status_of(kind)
    assert status in {400, 401, 403, 404, 409, 422, 429, 500, 503}
    if status == 500:
        assert kind.code in RUN_TIME
    else:
        assert documented()[kind.code] == status


def test_codes_are_unique_and_none_is_documented_in_vain() -> None:
    codes = [kind.code for kind in tree()] + list(CODES.values())
    assert len(codes) == len(set(codes))
    answered = {kind.code for kind in tree() if status_of(kind) != 500} | set(CODES.values())
    assert set(documented()) == answered
    assert {CODES[status]: status for status in CODES}.items() <= documented().items()


def test_every_branch_of_the_table_is_used() -> None:
    assert {next(base for base in kind.__mro__ if base in STATUS) for kind in tree()} == set(STATUS)


def test_details_stand_beside_the_standard_members_and_hide_none() -> None:
    response = problem_of(errors.JobEnded("it ended", status="failed", job_id="j"))
    body = json.loads(bytes(response.body))
    assert response.media_type == MEDIA_TYPE
    assert body == {
        "type": "urn:signoff:problem:job_ended",
        "title": "Job ended",
        "status": 409,
        "detail": "it ended",
        "code": "job_ended",
        "current_status": "failed",
        "job_id": "j",
    }


def test_text_that_utf8_cannot_hold_does_not_break_the_answer() -> None:
    body = bytes(problem_of(errors.InvalidRequest("bad \ud800", field="\ud800")).body)
    assert json.loads(body)["field"] == "�"


def test_what_is_not_the_callers_business_stays_inside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        away = bytes(problem_of(errors.StoreUnavailable("no password for postgres at 10.0.0.7")).body)
        defect = bytes(problem_of(errors.LeaseLost("fence 7")).body)
    assert b"10.0.0.7" not in away
    assert json.loads(defect)["code"] == "internal_error"
    assert b"fence" not in defect


@pytest.mark.parametrize(
    ("error", "header"),
    [
        (errors.TokenInvalid("x"), "www-authenticate"),
        (errors.SignatureInvalid("x"), "www-authenticate"),
        (errors.SchemaOutdated("x"), "retry-after"),
        (errors.RateLimited("x", retry_after_seconds=3), "retry-after"),
    ],
)
def test_headers_that_clients_need(error: SignoffError, header: str) -> None:
    assert header in problem_of(error).headers
