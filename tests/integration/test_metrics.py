"""`GET /metrics`: what there is, in the form that Prometheus reads, and no heavier for many who ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from signoff.domain.effects import Outcome
from signoff.infra.telemetry import metrics
from signoff.infra.telemetry.measures import FAMILIES, MEASURES, Family, Measure
from signoff.infra.telemetry.metrics import Metrics
from tests.support.api import Api, open_api
from tests.support.parked import AGENT, IN_DOUBT, parked, submitted, tried

pytestmark = pytest.mark.anyio

Samples = Mapping[tuple[str, tuple[str, ...]], float]


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as found:
        yield found


async def samples(api: Api) -> Samples:
    """Values by name and the values of their labels, as of now."""
    text = (await Metrics(api.store).text()).decode()
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, tuple(sample.labels.values())): sample.value for sample in found}


async def change(api: Api, sql: str) -> None:
    async with api.store.connection() as conn:
        await conn.execute(sql)


async def test_every_metric_is_there_from_the_start_and_no_token_is_needed(api: Api) -> None:
    await submitted(api.store)
    answer = await api.get(None, "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    for family in FAMILIES:
        assert f"# HELP {family.name} {family.help}\n" in answer.text
    assert "shop" not in answer.text, "who submitted is nobody's business here"


async def test_jobs_queues_and_reviews(api: Api) -> None:
    await submitted(api.store)
    await parked(api.store)
    await parked(api.store)
    await change(api, "UPDATE signoff.jobs SET run_at = run_at - interval '100 s' WHERE status = 'queued'")
    await change(api, "UPDATE signoff.reviews SET created_at = created_at - interval '1 h'")
    found = await samples(api)
    assert found["signoff_jobs", (AGENT, "queued")] == 1
    assert found["signoff_jobs", (AGENT, "awaiting_review")] == 2
    assert found["signoff_jobs_due", (AGENT,)] == 1
    assert 100 <= found["signoff_queue_age_seconds", (AGENT,)] < 130
    assert found["signoff_reviews_pending", ()] == 2
    assert 3600 <= found["signoff_review_oldest_seconds", ()] < 3700
    assert found["signoff_outbox_events", ()] == 5
    assert found["signoff_events_lately", ("signoff.review.requested.v1",)] == 2


async def test_what_became_of_a_decision(api: Api) -> None:
    place = await parked(api.store)
    path = f"/v1/reviews/{place.review_id}/decisions"
    (item,) = (await api.get("rita", f"/v1/reviews/{place.review_id}")).json()["items"]
    assert (await api.post("rita", path, {"decisions": [{"type": "approve"}]})).status_code == 200
    await tried(api.store, place.job_id, item["operation_id"], *IN_DOUBT, outcome=Outcome.unknown)
    await change(api, "UPDATE signoff.effects SET first_dispatched_at = first_dispatched_at + interval '20 s'")
    await change(api, "UPDATE signoff.effects SET doubt_since = doubt_since - interval '1 h'")
    found = await samples(api)
    assert found["signoff_effects", ("opaque", "in_doubt")] == found["signoff_effects_in_doubt", ()] == 1
    assert 3600 <= found["signoff_doubt_oldest_seconds", ()] < 3700
    assert found["signoff_jobs", (AGENT, "awaiting_operator")] == 1
    buckets = {key[1][0]: value for key, value in found.items() if key[0].endswith("_effect_seconds_bucket")}
    assert (buckets["10.0"], buckets["30.0"], buckets["+Inf"]) == (0, 1, 1)


async def test_alarms_letters_pauses_circuits_and_tallies(api: Api) -> None:
    place = await parked(api.store)
    (item,) = (await api.get("rita", f"/v1/reviews/{place.review_id}")).json()["items"]
    path = f"/v1/reviews/{place.review_id}/decisions"
    await api.post("rita", path, {"decisions": [{"type": "approve"}]})
    before = await samples(api)
    assert before["signoff_alarms_open", ("duplicate",)] == before["signoff_dead_letters", ("message",)] == 0
    alarm = f"'duplicate', '{item['operation_id']}', '{place.job_id}', 'twice'"
    await change(
        api,
        f"""INSERT INTO signoff.alarms (id, kind, operation_id, job_id, message) SELECT gen_random_uuid(), {alarm};
        INSERT INTO signoff.alarms (id, kind, operation_id, job_id, message, acknowledged_at, acknowledged_by)
            SELECT gen_random_uuid(), {alarm}, now(), 'olga';
        INSERT INTO signoff.poison_messages (stream, entry_id, body, error) VALUES ('signoff:jobs', '1-0', '', 'what');
        INSERT INTO signoff.pauses (id, reason, created_by) VALUES (gen_random_uuid(), 'a fire', 'olga');
        INSERT INTO signoff.providers (name, opened_at, open_until) VALUES ('bank', now(), now());
        INSERT INTO signoff.evidence (operation_id, fence, worker, outcome) VALUES ('op', 1, 'w', 'unknown');
        INSERT INTO signoff.tallies (name, label, value) VALUES ('leases_lapsed', 'a', 2), ('leases_lapsed', 'b', 3),
            ('fence_rejections', '', 7)""",
    )
    found = await samples(api)
    assert found["signoff_alarms_open", ("duplicate",)] == 1
    assert found["signoff_alarms_open", ("contradiction",)] == 0
    assert found["signoff_dead_letters", ("message",)] == found["signoff_pauses_active", ()] == 1
    assert found["signoff_circuits_open", ()] == found["signoff_late_answers_total", ()] == 1
    assert found["signoff_leases_lapsed_total", ()] == 5
    assert found["signoff_fence_rejections_total", ()] == 7


async def test_workers(api: Api) -> None:
    await change(
        api,
        f"""INSERT INTO signoff.workers (name, agents, version, seen_at, clock_offset_seconds, drain_requested_at)
        VALUES ('a', '{{{AGENT}}}', '1', now(), -3, NULL), ('b', '{{{AGENT}}}', '1', now(), 0, now()),
            ('c', '{{{AGENT}}}', '1', now() - interval '5 min', 90, NULL)""",
    )
    found = await samples(api)
    assert found["signoff_workers_live", ()] == 2
    assert found["signoff_workers_gone", ()] == 1
    assert found["signoff_worker_clock_offset_seconds", ()] == 3
    assert found["signoff_agent_workers", (AGENT,)] == 1


async def test_the_database_is_asked_once_however_many_scrape(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    rows = Metrics._rows

    async def counted(self: Metrics, measure: Measure) -> metrics.Rows | None:
        nonlocal asked
        asked += 1
        return await rows(self, measure)

    monkeypatch.setattr(Metrics, "_rows", counted)
    measured = Metrics(api.store)
    texts = await asyncio.gather(*(measured.text() for _ in range(20)))
    assert len(set(texts)) == 1
    assert asked == len(MEASURES)


async def test_a_measure_that_takes_too_long_is_left_out_alone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Measure("slow", "SELECT 1 AS value, pg_sleep(30)", (Family("signoff_slow", "Slow"),))
    monkeypatch.setattr(metrics, "MEASURES", (slow, *MEASURES))
    monkeypatch.setattr(metrics, "MOST_MILLISECONDS_OF_ONE", 50)
    found = await samples(api)
    assert ("signoff_slow", ()) not in found
    assert found["signoff_measure_failed", ("slow",)] == 1
    assert found["signoff_measure_failed", ("jobs",)] == 0
    assert found["signoff_reviews_pending", ()] == 0


async def test_without_a_database_nothing_is_claimed(api: Api) -> None:
    await api.services.pool.close()
    answer = await api.get(None, "/metrics")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
