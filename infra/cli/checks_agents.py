"""What the doctor asks about agents and workers: are tools and policy in step, is everybody there, do clocks agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from signoff.domain.errors import PolicyInvalid
from signoff.domain.policy import Policy
from signoff.domain.tool_patterns import matches
from signoff.infra.cli.checks import Check, State, judged, made
from signoff.infra.cli.checks_rows import Connection

MOST_CLOCK_SECONDS = 2.0
LIVE = "stopped_at IS NULL AND seen_at > clock_timestamp() - interval '1 minute'"
CLOCKS = f"""SELECT name, clock_offset_seconds AS seconds FROM signoff.workers WHERE {LIVE}
ORDER BY abs(clock_offset_seconds) DESC"""
GONE = """SELECT name, extract(epoch FROM clock_timestamp() - seen_at)::float8 AS seconds FROM signoff.workers
WHERE stopped_at IS NULL AND seen_at <= clock_timestamp() - interval '1 minute'
    AND seen_at > clock_timestamp() - interval '1 hour' ORDER BY seen_at"""
DRAINS = f"""SELECT name, extract(epoch FROM clock_timestamp() - drain_requested_at)::float8 AS seconds
FROM signoff.workers WHERE {LIVE} AND drained_at IS NULL
    AND drain_requested_at < clock_timestamp() - interval '15 minutes' ORDER BY drain_requested_at"""
VERSIONS = f"SELECT version, count(*) AS count FROM signoff.workers WHERE {LIVE} GROUP BY version ORDER BY version"

Rows = Sequence[Mapping[str, Any]]


async def check_agents(conn: Connection) -> Sequence[Check]:
    return [
        await made("tools", lambda: _tools(conn)),
        await made("lost workers", lambda: _gone(conn)),
        await made("worker clocks", lambda: _clocks(conn)),
        await made("drains", lambda: _drains(conn)),
        await made("versions", lambda: _versions(conn)),
    ]


async def _tools(conn: Connection) -> Check:
    """As the newest worker of each agent has registered both."""
    rows = await _rows(conn, "SELECT name, tools, policy FROM signoff.agents ORDER BY name")
    wrong = [f"{row['name']}: {problem}" for row in rows for problem in _out_of_step(row["tools"], row["policy"])]
    found = "; ".join(wrong) or f"in step with the policies of {len(rows)} agents"
    remedy = "correct the policy or the tools, and start the agent's workers again; until then such calls don't run"
    return judged("tools", not wrong, found, remedy, otherwise=State.warn)


def _out_of_step(tools: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    try:
        policy = Policy.from_dict(document)
    except PolicyInvalid as error:
        yield f"the policy can't be read by this version: {error.message}"
        return
    for rule in policy.rules:
        if not any(matches(rule.tool, name) for name in tools):
            yield f"no tool is called {rule.tool!r}, as a rule has it"
    for name, tool in tools.items():
        if not any(matches(rule.tool, name) for rule in policy.rules):
            yield f"no rule is for {name!r}, so it is denied"
        undone_by = (tool.get("compensation") or {}).get("tool")
        if undone_by is not None and undone_by not in tools:
            yield f"{name!r} is undone by {undone_by!r}, which is no tool"


async def _gone(conn: Connection) -> Check:
    rows = await _rows(conn, GONE)
    found = _each(rows, "{name}, not seen for {seconds:.0f} s") or "none left without a word in the last hour"
    remedy = (
        "was it killed, or is it cut off from the database? Its jobs are taken back; look in its log, start it again"
    )
    return judged("lost workers", not rows, found, remedy, otherwise=State.warn)


async def _clocks(conn: Connection) -> Check:
    rows = await _rows(conn, CLOCKS)
    apart = [row for row in rows if abs(row["seconds"]) > MOST_CLOCK_SECONDS]
    worst = f"{len(rows)} workers, {max((abs(row['seconds']) for row in rows), default=0.0):.3f} s at most"
    found = _each(apart, "{name} is {seconds:+.1f} s off the database") or worst
    return judged("worker clocks", not apart, found, "set the clocks of these hosts by NTP")


async def _drains(conn: Connection) -> Check:
    rows = await _rows(conn, DRAINS)
    found = _each(rows, "{name}, asked {seconds:.0f} s ago") or "none is slow"
    return judged(
        "drains", not rows, found, "see what it runs: `signoff jobs list --status running`", otherwise=State.warn
    )


async def _versions(conn: Connection) -> Check:
    rows = await _rows(conn, VERSIONS)
    found = ", ".join(f"{row['count']} of {row['version']}" for row in rows) or "no worker is there"
    remedy = "finish the upgrade: replace the workers of the older version"
    return judged("versions", len(rows) <= 1, found, remedy, otherwise=State.warn)


async def _rows(conn: Connection, sql: str) -> Rows:
    return await (await conn.execute(sql)).fetchall()


def _each(rows: Iterable[Mapping[str, Any]], form: str) -> str:
    return "; ".join(form.format(**row) for row in rows)
