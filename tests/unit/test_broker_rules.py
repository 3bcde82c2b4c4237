"""Celery as every process configures it loses nothing that can't be lost."""

from __future__ import annotations

from typing import Any, cast

import pytest
from celery import Celery

from signoff.infra.broker_rules import DIVERTING, MUST, broken_rules
from signoff.infra.hints import DECIDE_REVIEW, RUN_EFFECT, RUN_JOB, SUBMIT_JOB, make_broker
from signoff.workers.app import add_tasks
from signoff.workers.process import ProcessOf


def broker() -> Celery:
    return make_broker("redis://127.0.0.1:1", 2.0)


def test_ours_keeps_all_rules() -> None:
    assert list(broken_rules(broker(), {})) == []


@pytest.mark.parametrize("must", MUST, ids=lambda must: str(must.setting))
def test_each_rule_finds_another_value(must: Any) -> None:
    app = broker()
    app.conf[must.setting] = "redis://other" if must.value is None else [] if must.value != [] else ["pickle"]
    (problem,) = broken_rules(app, {})
    assert problem.startswith(must.setting)


@pytest.mark.parametrize("options", [{"visibility_timeout": 5, "socket_timeout": 5}, {"visibility_timeout": 600}])
def test_the_transport(options: dict[str, int]) -> None:
    app = broker()
    app.conf.broker_transport_options = options
    assert len(list(broken_rules(app, {}))) == 1


@pytest.mark.parametrize("name", DIVERTING)
def test_what_celery_reads_from_the_environment(name: str) -> None:
    (problem,) = broken_rules(broker(), {name: "redis://:hunter2@elsewhere"})
    assert problem.startswith(name)
    assert "hunter2" not in problem


def test_hints_are_acknowledged_early_and_the_work_itself_late() -> None:
    app = broker()
    add_tasks(app, cast(ProcessOf, None))
    tasks = {name: app.tasks[name] for name in (RUN_JOB, RUN_EFFECT, SUBMIT_JOB, DECIDE_REVIEW)}
    assert {name for name, task in tasks.items() if task.acks_late} == {SUBMIT_JOB, DECIDE_REVIEW}
    for name in (SUBMIT_JOB, DECIDE_REVIEW):
        assert tasks[name].retry_on_worker_lost
        assert tasks[name].max_retries
