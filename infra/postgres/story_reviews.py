"""What the reviews of a job tell: what was proposed, shown and decided, by whom, and what else was done with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.infra.postgres.story_entries import Entry, moment_of, short
from signoff.infra.postgres.views_reviews import reviews_of_job

View = Mapping[str, Any]
DECISION_FACTS = ("type", "on_behalf_of", "revision", "tool", "args", "message", "then")


async def review_entries(conn: AsyncConnection[DictRow], job_id: UUID, who: Principal) -> list[Entry]:
    """Of those that `who` may see; what a rule hides is masked as in the reviews themselves."""
    return [entry for review in await reviews_of_job(conn, job_id, who) for entry in _entries(review)]


def _entries(review: View) -> Iterator[Entry]:
    ids = {"review": review["review_id"]}
    asked = sorted({name for item in review["items"] for name in item["reviewers"]})
    deadline = {"deadline_at": review["deadline_at"]}
    text = f"of {', '.join(asked)}" if asked else ""
    yield Entry(moment_of(review["created_at"]), "review.requested", review["agent"], text, ids, deadline)
    for item in review["items"]:
        yield from _item(review, item, {**ids, "item": item["item_id"], "operation": item["operation_id"]})
    for act in review["acts"]:
        facts = {**act["facts"], "message": act["message"]}
        text = short(act["message"])
        yield Entry(moment_of(act["at"]), f"review.{act['act']}", act["actor"], text, ids, facts, rank=2)
    if review["decided_at"] is not None:
        yield Entry(moment_of(review["decided_at"]), f"review.{review['status']}", None, "", ids, rank=4)
    if review["resumed_at"] is not None:
        yield Entry(moment_of(review["resumed_at"]), "review.resumed", None, "the run goes on with the answers", ids)


def _item(review: View, item: View, ids: dict[str, Any]) -> Iterator[Entry]:
    """What the agent proposed, what was shown with it, and each voice; also of calls that were amended since."""
    proposed = item["proposed"] or item
    args = proposed["args"] if proposed["args"] is not None else item["unreadable_args"]
    facts = {name: item[name] for name in ("description", "rule", "reason", "shown", "hidden")}
    text = f"{_call(proposed['tool'], args)}: {item['reason']}"
    proposal = {"tool": proposed["tool"], "args": args, "digest": proposed["digest"]}
    at = moment_of(review["created_at"])
    yield Entry(at, "call.proposed", review["agent"], text, ids, {**proposal, **facts}, rank=1)
    for decision in item["decisions"]:
        yield _decision(item, decision, ids)


def _decision(item: View, decision: View, ids: dict[str, Any]) -> Entry:
    words = [str(decision["type"])]
    if decision["type"] == "edit":
        words.append(f"to {_call(decision['tool'] or item['tool'], decision['args'])}")
    if decision.get("on_behalf_of"):
        words.append(f"in the place of {decision['on_behalf_of']}")
    text = " ".join(words) + (f": {decision['message']}" if decision["message"] else "")
    facts = {
        name: decision.get(name) for name in ("type", "on_behalf_of", "revision", "tool", "args", "message", "then")
    }
    at = moment_of(decision["decided_at"])
    return Entry(at, "call.decided", decision["reviewer"], short(text), ids, facts, rank=3)


def _call(tool: str, args: Any) -> str:
    return short(f"{tool} {args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)}")
