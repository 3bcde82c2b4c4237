"""R24: Postgres refuses, at any table of a run and at its commit: full disk, deadlock, time-out, too many connections.

A trigger raises what the server would: a disk that is really full needs a file system of its own. The pool that is
empty is a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from signoff.domain.jobs import JobStatus
from tests.support.scene import Scene, four

pytestmark = pytest.mark.anyio

ERRORS = {
    "disk full": "53100",
    "too many connections": "53300",
    "statement timeout": "57014",
    "deadlock": "40P01",
    "serialization failure": "40001",
    "the server shuts down": "57P01",
}
TABLES = ("signoff.jobs", "signoff.reviews", "signoff.effects", "signoff.attempts", "langgraph.checkpoints")
# Which changes of the table are refused: a sequence counts them, since it is not rolled back.
TRIGGER = """
CREATE SEQUENCE public.refusals;
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = 'signoff' AND nextval('public.refusals') IN (1, 3, 6) THEN
        RAISE EXCEPTION 'refused by a test' USING ERRCODE = '{code}';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER refused_by_a_test AFTER INSERT OR UPDATE ON {table} {when}
    FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""
END = "DROP FUNCTION public.refuse CASCADE; DROP SEQUENCE public.refusals"


@pytest.mark.parametrize("table", TABLES)
async def test_a_table_that_refuses(scene: Scene, table: str) -> None:
    worker = scene.worker()
    await scene.ready()
    # Each table in turn with two of them, one at the statement and one at the commit.
    first = TABLES.index(table)
    for number, name in enumerate([list(ERRORS)[first], list(ERRORS)[first + 1]]):
        code = ERRORS[name]
        ref = f"{table}-{code}"
        job_id = await scene.submit(four(ref))
        await scene.approve(job_id)
        async with _refusing(scene, table, code, deferred=number == 1):
            assert await scene.ended(job_id) is JobStatus.succeeded, name
        done = [await scene.done(tool, args["ref"]) for tool, args in four(ref)]
        assert done == [1, 1, 1, 1], name
    await scene.judge()
    worker.kill()


async def test_a_pool_that_is_empty(scene: Scene) -> None:
    """One connection for eight runs of four calls each, while others hold it as long as they can."""
    worker = scene.worker(SIGNOFF_DATABASE_POOL_SIZE="1")
    jobs = [await scene.submit(four(f"pool-{number}")) for number in range(8)]
    await asyncio.gather(*(scene.approve(job_id) for job_id in jobs))
    ends = await asyncio.gather(*(scene.ended(job_id, within_seconds=60) for job_id in jobs))
    assert ends == [JobStatus.succeeded] * len(jobs)
    await scene.judge()
    worker.kill()


@asynccontextmanager
async def _refusing(scene: Scene, table: str, code: str, *, deferred: bool) -> AsyncIterator[None]:
    when = "DEFERRABLE INITIALLY DEFERRED" if deferred else ""
    for statement in _statements(TRIGGER.format(code=code, table=table, when=when)):
        await scene.desk.sql(statement)
    try:
        yield
    finally:
        for statement in END.split(";"):
            await scene.desk.sql(statement)


def _statements(script: str) -> list[str]:
    sequence, _, rest = script.partition(";\n")
    function, _, trigger = rest.partition("$$;\n")
    return [sequence, function + "$$", trigger]
