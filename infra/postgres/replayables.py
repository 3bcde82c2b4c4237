"""What plans of replays are made of."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.effects import EffectClass, EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.replay_plans import MOST_ENTRIES, EffectFacts, JobFacts, Wanted
from signoff.infra.postgres.holdbacks import COVERS
from signoff.infra.postgres.views import Query, storable
from signoff.infra.postgres.views_effects import EffectFilter
from signoff.infra.postgres.views_jobs import JobFilter

EFFECTS = f"""
SELECT e.operation_id, e.job_id, e.agent, e.tool, e.status, e.attempts, e.generation, e.class,
    e.purged_at IS NOT NULL AS purged, coalesce(e.args, json_build_object()) AS args, j.status AS job_status,
    EXISTS (SELECT FROM signoff.pauses p WHERE {COVERS}) AS paused
FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id WHERE {{}}
ORDER BY e.created_at, e.operation_id LIMIT {{}}
"""
JOBS = """SELECT j.id, j.agent, j.status, j.event_sequence FROM signoff.jobs j WHERE {} ORDER BY j.created_at, j.id
LIMIT {}"""
DONE = "SELECT request_id FROM signoff.operator_acts WHERE body->>'plan' = %s"


class ReplayableTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def effects(self, wanted: Wanted) -> Sequence[EffectFacts]:
        query = Query()
        if wanted.names:
            operations = [storable("operations", operation) for operation in wanted.operations]
            query.add("e.operation_id = ANY(%(operations)s)", operations=operations)
        else:
            _effect_filter(wanted).apply(query)
        return await self._effects(query)

    async def jobs(self, wanted: Wanted) -> Sequence[JobFacts]:
        query = Query()
        if wanted.names:
            query.add("j.id = ANY(%(job_ids)s)", job_ids=list(wanted.job_ids))
        elif wanted.jobs:
            _job_filter(wanted).apply(query)
            query.add_equal(j__id=wanted.job_id)
        else:
            return []
        rows = await (await self._conn.execute(JOBS.format(query.where, MOST_ENTRIES + 1), query.parameters)).fetchall()
        effects = await self._of_jobs([row["id"] for row in rows])
        return [_job_facts(row, effects) for row in rows]

    async def done_by(self, plan_id: str) -> frozenset[str]:
        rows = await (await self._conn.execute(DONE, (plan_id,))).fetchall()
        return frozenset(row["request_id"] for row in rows)

    async def _of_jobs(self, job_ids: Sequence[UUID]) -> Sequence[EffectFacts]:
        query = Query()
        query.add("e.job_id = ANY(%(job_ids)s)", job_ids=list(job_ids))
        return await self._effects(query) if job_ids else []

    async def _effects(self, query: Query) -> Sequence[EffectFacts]:
        sql = EFFECTS.format(query.where, 10 * MOST_ENTRIES)
        return [_facts(row) for row in await (await self._conn.execute(sql, query.parameters)).fetchall()]


def _effect_filter(wanted: Wanted) -> EffectFilter:
    return EffectFilter(
        status=wanted.statuses,
        tool=wanted.tool,
        job_id=wanted.job_id,
        agent=wanted.agent,
        error=wanted.error,
        age=wanted.age,
        labels=wanted.labels,
    )


def _job_filter(wanted: Wanted) -> JobFilter:
    return JobFilter(
        status=(JobStatus.failed,),
        agent=wanted.agent,
        tool=wanted.tool,
        error=wanted.error,
        age=wanted.age,
        labels=wanted.labels,
    )


def _facts(row: DictRow) -> EffectFacts:
    declared = row["class"]
    return EffectFacts(
        operation_id=row["operation_id"],
        job_id=row["job_id"],
        agent=row["agent"],
        tool=row["tool"],
        status=EffectStatus(row["status"]),
        attempts=row["attempts"],
        generation=row["generation"],
        effect_class=None if declared is None else EffectClass(declared),
        purged=row["purged"],
        paused=row["paused"],
        job_status=JobStatus(row["job_status"]),
        args=row["args"],
    )


def _job_facts(row: DictRow, effects: Sequence[EffectFacts]) -> JobFacts:
    own = tuple(effect for effect in effects if effect.job_id == row["id"])
    return JobFacts(row["id"], row["agent"], JobStatus(row["status"]), row["event_sequence"], own)
