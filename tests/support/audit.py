"""What the audit tests share: acts read back, a flow that leaves many, and whoever owns the database."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg

from signoff.domain.audit_chain import Finding, Head
from signoff.domain.effects import EffectStatus, Outcome, Step, Terms
from signoff.domain.jobs import Job
from signoff.domain.running import finish
from signoff.infra.cli.audit_verdict import verify_database
from signoff.infra.postgres.audit import ROW_COLUMNS
from signoff.infra.postgres.audit_sealing import seal_rows
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.services import Services
from tests.support.api import Api, until
from tests.support.parked import Parked, claimed, parked

SUCCEEDED = Step(EffectStatus.succeeded, doubt=False, reason="done")


async def acts(store: PostgresStore, job_id: UUID | None = None) -> list[dict[str, Any]]:
    """The acts of a job, or all, in the order of their positions."""
    query = f"SELECT {ROW_COLUMNS}, signoff.audit.body FROM signoff.audit"
    async with store.connection() as conn:
        cursor = await conn.execute(query + " WHERE %s::uuid IS NULL OR job_id = %s ORDER BY position", [job_id] * 2)
        return await cursor.fetchall()


async def approved(api: Api) -> Parked:
    """A job whose one call rita has approved."""
    job = await parked(api.store)
    body = {"decisions": [{"type": "approve"}]}
    answer = await api.post("rita", f"/v1/reviews/{job.review_id}/decisions", body)
    assert answer.status_code == 200, answer.text
    return job


async def executed(store: PostgresStore, job_id: UUID) -> Job:
    """Sends the planned effect of an approved job, well, and ends the job."""
    job = await claimed(store, job_id)
    async with store.begin() as tx:
        await tx.jobs.fence(job)
        cursor = await tx.conn.execute("SELECT operation_id FROM signoff.effects WHERE job_id = %s", (job_id,))
        (row,) = await cursor.fetchall()
        effect = await tx.effects.lock(row["operation_id"])
        assert effect is not None
        sent = await tx.effects.dispatch(effect, Terms(), fence=job.fence, worker="worker-1")
        done = {"result": ("text", b"refunded"), "reference": "re_1", "outcome": Outcome.succeeded}
        assert await tx.effects.move(sent, SUCCEEDED, actor="worker-1", **done)  # type: ignore[arg-type]
        await finish(tx, job, {"answer": "Done."})
    return job


async def seal_all(services: Services) -> Head:
    """Until nothing is unsealed: other databases of the server have transactions too."""

    async def sealed() -> Head | None:
        async with services.store.begin() as tx:
            while await seal_rows(tx.conn, 500, pause_seconds=0):
                continue
        verdict = await verify_database(services, None)
        return verdict.head if verdict.unsealed and verdict.unsealed.rows == 0 else None

    return await until(sealed)


async def found(services: Services, head: Head | None = None) -> list[Finding]:
    return (await verify_database(services, head)).findings


def as_owner(database_url: str, *statements: str) -> None:
    """What somebody who owns the database can do: no trigger is in the way."""
    with psycopg.connect(database_url) as conn:
        conn.execute("SET session_replication_role = replica")
        for statement in statements:
            conn.execute(statement)
