"""Requests made from the OpenAPI document, right and wrong ones: no answer is an error of ours, and no bad decision
moves anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, Response
from schemathesis.core.result import Ok

from signoff.infra.postgres.store import PostgresStore
from tests.support.api import Api, dump
from tests.support.parked import Parked, parked, refund
from tests.support.served import Served, served

FEW = settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=150)
TABLES = ("jobs", "reviews", "items", "decisions", "revisions", "effects")
# An event stream stays open until its reader goes.
ENDLESS = {"/v1/jobs/{job_id}/events"}


@pytest.fixture
def server(database_url: str) -> Iterator[Served]:
    with served(database_url) as found:
        yield found


def operations(server: Served) -> Iterator[Any]:
    schema = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        yield found.ok()


def waiting(server: Served) -> Parked:
    async def park(api: Api) -> Parked:
        store: PostgresStore = api.store
        # So many that no right vector of decisions comes about by chance.
        return await parked(store, *(refund(amount) for amount in range(30, 37)))

    return server.run(park)


def sent(server: Served, case: Any, who: str) -> Response:
    token = server.api.tokens[who]
    answer: Response = case.call(headers={"Authorization": f"Bearer {token}"}, timeout=20)
    return answer


def each(strategy: Any, check: Callable[[Any], None], limits: settings = FEW) -> None:
    # Of an operation without parameters there are no wrong requests.
    with suppress(Unsatisfiable):
        limits(given(case=strategy)(lambda case: check(case)))()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
def test_no_request_is_answered_with_an_error_of_ours(server: Served, mode: GenerationMode) -> None:
    job = waiting(server)
    known = {"job_id": str(job.job_id), "review_id": str(job.review_id)}

    def check(case: Any) -> None:
        # About something that is there, where that may be.
        if case.path_parameters:
            case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
        for who in ("olga", "rita"):
            answer = sent(server, case, who)
            assert answer.status_code < 500, (case.method, case.path, answer.status_code, answer.text)
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == ["application/problem+json"], (case.path, answer.text)

    for operation in operations(server):
        if operation.path not in ENDLESS:
            each(operation.as_strategy(generation_mode=mode), check)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
def test_a_bad_decision_moves_nothing_whatever_it_looks_like(
    server: Served, database_url: str, mode: GenerationMode
) -> None:
    job = waiting(server)
    before = {name: rows for name, rows in dump(database_url).items() if name in TABLES}
    (decide,) = [one for one in operations(server) if one.label == "POST /v1/reviews/{review_id}/decisions"]
    refused = []

    def check(case: Any) -> None:
        case.path_parameters = {"review_id": str(job.review_id)}
        answer = sent(server, case, "rita")
        assert answer.status_code < 500, (case.body, answer.text)
        assert answer.status_code >= 400, f"seven items are decided by {case.body!r}"
        refused.append(answer.json()["code"])

    each(decide.as_strategy(generation_mode=mode), check, MANY)
    assert len(set(refused)) > 1
    assert {name: rows for name, rows in dump(database_url).items() if name in TABLES} == before
