"""Reviews for people to read and decide."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from signoff.domain.deciding import Decided
from signoff.infra.cli.output import as_json_text, hanging, moment, more, print_facts, print_line, print_table

View = Mapping[str, Any]


def print_reviews(page: View) -> None:
    columns = ("review", "status", "agent", "calls", "reviewers", "deadline", "created")
    print_table(columns, [_row(review) for review in page["reviews"]])
    more(page)


def print_review(review: View) -> None:
    """Each call with its arguments as they would run, and, while it is open, the commands that decide it."""
    print_facts(
        {
            "review": review["review_id"],
            "status": review["status"],
            "agent": review["agent"],
            "job": review["job_id"],
            "thread": review["thread_id"],
            "asked by": review["submitted_by"],
            "created": moment(review["created_at"]),
            "deadline": moment(review["deadline_at"]),
            "claimed by": _claim(review),
            "decided": moment(review["decided_at"]),
            "resumed": moment(review["resumed_at"]),
        }
    )
    for number, item in enumerate(review["items"], start=1):
        print_line(f"\n{number}. {item['tool']}")
        _print_item(item)
    if review["acts"]:
        print_line("\nActs")
        _print_acts(review["acts"])
    _print_commands(review)


def print_decided(decided: Decided) -> None:
    print_line(f"review {decided.review_id}: {decided.status}" + (", as before" if decided.repeated else ""))
    for decision in decided.decisions:
        print_line(f"  item {decision.item_id}: {decision.type} by {decision.reviewer}")
    if decided.status != "pending":
        print_line(f"job {decided.job_id} goes on")


def _row(review: View) -> tuple[object, ...]:
    items = review["items"]
    calls = ", ".join(item["tool"] for item in items)
    reviewers = ", ".join(sorted({group for item in items for group in item["reviewers"]}))
    head = (review["review_id"], review["status"], review["agent"])
    return (*head, calls, reviewers, moment(review["deadline_at"]), moment(review["created_at"]))


def _print_item(item: View) -> None:
    readable = item["args"] is not None
    print_facts(
        {
            "item": item["item_id"],
            "call id": item["tool_call_id"],
            "revision": _revision(item),
            "status": item["status"],
            "asked": item["description"],
            "because": item["reason"],
            "reviewers": ", ".join(item["reviewers"]),
            "assigned to": ", ".join(item["assigned_to"]) or None,
            "ladder": _ladder(item["ladder"]),
            "approvals": _approvals(item["approvals"]),
            "allowed": ", ".join(item["allowed_decisions"]),
            "arguments": as_json_text(item["args"]) if readable else None,
            "unreadable arguments": None if readable else item["unreadable_args"],
            "hidden": ", ".join(item["hidden"]) or None,
            "shown": as_json_text(item["shown"]) if item["shown"] else None,
            "proposed": _proposed(item["proposed"]),
            "decided so far": "\n".join(map(_decision, _earlier(item))) or None,
            "decision": _decision(item["decision"]) if item["decision"] else None,
        },
        indent="   ",
    )


def _claim(review: View) -> str | None:
    return f"{review['claimed_by']} until {moment(review['claimed_until'])}" if review["claimed_by"] else None


def _revision(item: View) -> str | None:
    return None if item["proposed"] is None else f"{item['revision']}, amended by {item['proposed']['amended_by']}"


def _proposed(proposed: View | None) -> str | None:
    """What the agent asked for."""
    return None if proposed is None else f"{proposed['tool']} {as_json_text(proposed['args'])}"


def _approvals(approvals: View) -> str | None:
    return f"{approvals['given']} of {approvals['needed']}" if approvals["needed"] > 1 else None


def _ladder(ladder: View) -> str | None:
    if not ladder["rungs"]:
        return None
    then = f", the next at {moment(ladder['next_at'])}" if ladder["next_at"] else ""
    asked = f"; asked since: {', '.join(ladder['escalated_to'])}" if ladder["escalated_to"] else ""
    return f"{ladder['rung']} of {ladder['rungs']} rungs{then}{asked}"


def _earlier(item: View) -> list[View]:
    return [one for one in item["decisions"] if one != item["decision"]]


def _print_acts(acts: Sequence[View]) -> None:
    """What was done beside deciding, oldest first."""
    for act in acts:
        names = act["facts"].get("assigned_to") or act["facts"].get("reviewers") or ()
        said = [text for text in (", ".join(names), act["message"]) if text]
        line = ": ".join([f"{moment(act['at'])}  {act['act']} by {act['actor']}", *said])
        print_line(f"   {hanging(line, indent=6)}")


def _decision(decision: View) -> str:
    words = f"{decision['type']} by {decision['reviewer']} at {moment(decision['decided_at'])}"
    if decision.get("on_behalf_of"):
        words += f", in the place of {decision['on_behalf_of']}"
    if decision["type"] == "edit":
        words += f", to {as_json_text(decision['args'])}"
    message = f": {decision['message']}" if decision["message"] else ""
    return f"{words}{message}" + (f" (then {decision['then']})" if decision["then"] else "")


def _print_commands(review: View) -> None:
    opened = [item for item in review["items"] if item["status"] == "open"]
    if review["status"] != "pending" or not opened:
        return
    print_line("\nTo decide" + (", each item alone, or all of them without --item:" if len(opened) > 1 else ":"))
    for item in opened:
        named = ["--item", item["item_id"]] if len(review["items"]) > 1 else []
        named += ["--revision", str(item["revision"])] if item["revision"] > 1 else []
        for option in _options(item):
            print_line("  " + shlex.join(["signoff", "reviews", "decide", review["review_id"], *named, *option]))


def _options(item: View) -> list[list[str]]:
    # Letters beyond ASCII as JSON escapes: a command that is copied must be what is seen.
    args = json.dumps(item["args"])
    ways = {
        "approve": ["--approve"],
        "edit": ["--edit", args],
        "reject": ["--reject", "why not"],
        "respond": ["--respond", "the answer"],
    }
    return [ways[word] for word in item["allowed_decisions"] if word in ways]
