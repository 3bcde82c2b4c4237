"""One job's whole story in order, put together from what every table says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.infra.postgres.story_effects import effect_entries
from signoff.infra.postgres.story_jobs import job_entries
from signoff.infra.postgres.story_reviews import review_entries
from signoff.infra.postgres.views_jobs import show_job


async def show_story(conn: AsyncConnection[DictRow], job_id: UUID, who: Principal) -> dict[str, Any]:
    """{"job", "story"}: oldest first, from the submission to the end. Raises JobNotFound."""
    job = await show_job(conn, job_id, who)
    entries = [
        *await job_entries(conn, job_id),
        *await review_entries(conn, job_id, who),
        *await effect_entries(conn, job_id, who),
    ]
    entries.sort(key=lambda entry: (entry.at, entry.rank))
    return {"job": job, "story": [entry.view() for entry in entries]}
