"""What a replay would do of each effect, and when a plan no longer holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.effects import EffectClass, EffectStatus
from signoff.domain.errors import PlanAltered, PlanTooLarge
from signoff.domain.filters import parse_span
from signoff.domain.jobs import JobStatus
from signoff.domain.replay_plans import (
    ACTING,
    EffectFacts,
    JobFacts,
    ReplayPlan,
    Wanted,
    Would,
    effect_entry,
    entries_of,
    job_entry,
    outdated,
    would_do,
)

S, C = EffectStatus, EffectClass
JOB = UUID(int=1)
DEAD = EffectFacts("op_1", JOB, "desk", "pay", S.dead, 5, 0, C.keyed, False, False, JobStatus.awaiting_operator)

FACTS = st.builds(
    EffectFacts,
    operation_id=st.sampled_from(["op_1", "op_2", "op_3"]),
    job_id=st.sampled_from([JOB, UUID(int=2)]),
    agent=st.just("desk"),
    tool=st.sampled_from(["pay", "mail"]),
    status=st.sampled_from(EffectStatus),
    attempts=st.integers(0, 9),
    generation=st.integers(0, 3),
    effect_class=st.none() | st.sampled_from(EffectClass),
    purged=st.booleans(),
    paused=st.booleans(),
    job_status=st.sampled_from(JobStatus),
    args=st.just({}),
    high_risk=st.booleans(),
)
JOBS = st.builds(
    JobFacts,
    id=st.sampled_from([JOB, UUID(int=3)]),
    agent=st.just("desk"),
    status=st.sampled_from(JobStatus),
    events=st.integers(0, 9),
    effects=st.lists(FACTS, max_size=3).map(tuple),
)


def plan_of(*entries: Any) -> ReplayPlan:
    return ReplayPlan("plan-1", "olga", "2026-01-01T00:00:00+00:00", Wanted().to_dict(), tuple(entries))


@pytest.mark.parametrize(
    ("status", "alone", "in_run"),
    [
        (S.succeeded, Would.reuse, Would.reuse),
        (S.skipped, Would.reuse, Would.reuse),
        (S.revoked, Would.reuse, Would.reuse),
        (S.cancelled, Would.reuse, Would.reuse),
        (S.failed, Would.would_be_new, Would.reuse),
        (S.dead, Would.send_again_same_key, Would.blocked),
        (S.in_doubt, Would.blocked, Would.blocked),
        (S.dispatched, Would.blocked, Would.blocked),
        (S.planned, Would.blocked, Would.would_be_new),
        (S.retry_wait, Would.blocked, Would.send_again_same_key),
    ],
)
def test_each_state_has_its_answer(status: EffectStatus, alone: Would, in_run: Would) -> None:
    facts = replace(DEAD, status=status)
    assert (would_do(facts)[0], would_do(facts, in_run=True)[0]) == (alone, in_run)


@pytest.mark.parametrize("effect_class", EffectClass)
def test_a_run_repeats_what_is_in_doubt_only_where_that_is_harmless(effect_class: EffectClass) -> None:
    facts = replace(DEAD, status=S.in_doubt, effect_class=effect_class)
    harmless = effect_class in (C.read, C.transactional, C.idempotent)
    assert (would_do(facts, in_run=True)[0] is Would.send_again_same_key) == harmless
    assert would_do(facts)[0] is Would.blocked


@given(FACTS)
def test_only_what_certainly_did_not_happen_is_sent_again(facts: EffectFacts) -> None:
    would, reason = would_do(facts)
    assert reason
    if would in ACTING:
        assert facts.status in (S.failed, S.dead)
        assert not any((facts.purged, facts.paused, facts.high_risk))
    assert (would is Would.would_be_new) == (would in ACTING and facts.status is S.failed)


@given(st.lists(FACTS, max_size=4), st.lists(JOBS, max_size=2))
def test_a_plan_survives_a_file_and_nothing_in_it_can_be_changed(
    effects: list[EffectFacts], jobs: list[JobFacts]
) -> None:
    plan = plan_of(*entries_of(effects, jobs))
    raw = json.loads(json.dumps(plan.to_dict()))
    assert ReplayPlan.from_dict(raw) == plan
    for entry in raw["entries"]:
        entry["would"] = "retry" if entry["would"] != "retry" else "reuse"
        with pytest.raises(PlanAltered):
            ReplayPlan.from_dict(raw)
        break


@pytest.mark.parametrize("raw", [None, [], {}, {"entries": []}, {"entries": [{}]}, {"plan_id": 1, "entries": 5}])
def test_what_is_no_plan_is_refused(raw: Any) -> None:
    with pytest.raises(PlanAltered):
        ReplayPlan.from_dict(raw)


@pytest.mark.parametrize(
    "change",
    [
        {"status": S.failed},
        {"attempts": 6},
        {"generation": 1},
        {"job_status": JobStatus.succeeded},
        {"paused": True},
        {"purged": True},
        {"high_risk": True},
    ],
)
def test_a_plan_is_outdated_by_whatever_it_looked_at(change: dict[str, Any]) -> None:
    entry = effect_entry(DEAD)
    now = effect_entry(replace(DEAD, **change))
    (found,) = outdated([entry], {("effect", "op_1"): now})
    assert found["id"] == "op_1"
    assert outdated([entry], {("effect", "op_1"): effect_entry(DEAD)}) == []
    assert outdated([entry], {})[0]["is"] is None
    # Another effect of the same job was sent before it, and the job goes on.
    assert outdated([entry], {("effect", "op_1"): effect_entry(replace(DEAD, job_status=JobStatus.queued))}) == []


def test_a_job_is_outdated_by_whatever_happens_to_it() -> None:
    job = JobFacts(JOB, "desk", JobStatus.failed, 7, (DEAD,))
    entry = job_entry(job)
    assert (entry.would, entry.effects[0]["would"]) == (Would.retry, "blocked")
    for other in (replace(job, events=8), replace(job, status=JobStatus.queued)):
        assert outdated([entry], {("job", str(JOB)): job_entry(other)})


def test_the_effects_of_a_job_that_is_retried_are_told_of_with_it() -> None:
    job = JobFacts(JOB, "desk", JobStatus.failed, 7, (DEAD,))
    other = replace(DEAD, operation_id="op_2", job_id=UUID(int=2))
    assert [entry.id for entry in entries_of([DEAD, other], [job])] == [str(JOB), "op_2"]


def test_more_than_the_limit_is_refused_and_a_sample_is_not() -> None:
    entries = [effect_entry(replace(DEAD, operation_id=f"op_{number}")) for number in range(5)]
    blocked = effect_entry(replace(DEAD, operation_id="op_9", paused=True))
    plan = plan_of(blocked, *entries)
    with pytest.raises(PlanTooLarge) as caught:
        plan.part(None, 4)
    assert caught.value.details == {"acts": 5, "limit": 4}
    assert plan.part(None, 5) == tuple(entries)
    assert plan.part(2, 4) == tuple(entries[:2])


def test_what_was_asked_for_is_written_down() -> None:
    wanted = Wanted(tool="pay", operations=("op_1",), jobs=True, age=replace(Wanted().age, older_than=parse_span("2h")))
    assert wanted.to_dict() == {
        "statuses": ["failed", "dead", "in_doubt"],
        "tool": "pay",
        "older_than_seconds": 7200.0,
        "operations": ["op_1"],
        "jobs": True,
    }
