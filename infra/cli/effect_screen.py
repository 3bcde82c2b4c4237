"""The ledger for people to read: one effect on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.infra.cli.output import as_json_text, moment, more, print_facts, print_line, print_table

View = Mapping[str, Any]


def print_effects(page: View) -> None:
    columns = ("operation", "status", "tool", "attempts", "job", "created", "in doubt since", "error")
    print_table(columns, [_row(effect) for effect in page["effects"]])
    more(page)


def print_effect(effect: View) -> None:
    """What was allowed and by whom, every try, every transition, and what came back late."""
    print_facts(
        {
            "operation": effect["operation_id"],
            "status": f"{effect['status']}, runs by itself" if effect["alone"] else effect["status"],
            "tool": f"{effect['tool']} ({effect['class'] or 'not sent yet'})",
            "job": effect["job_id"],
            "allowed": _authority(effect["authority"]),
            "arguments": as_json_text(effect["args"]),
            "generation": effect["generation"] or None,
            "reference": effect["provider_reference"],
            "in doubt since": moment(effect["doubt_since"]),
            "next try": moment(effect["retry_at"]),
            "error": _error(effect),
            "result": None if effect["result"] is None else _content(effect["result"]),
        }
    )
    _print_part("Attempts", effect["attempt_log"], _attempt)
    _print_part("History", effect["history"], _transition)
    _print_part("What came back late", effect["evidence"], _evidence)
    _print_commands(effect)


def _row(effect: View) -> tuple[object, ...]:
    names = ("operation_id", "status", "tool", "attempts", "job_id")
    times = (moment(effect["created_at"]), moment(effect["doubt_since"]))
    return (*(effect[name] for name in names), *times, effect["error"] and effect["error"]["code"])


def _authority(authority: View) -> str:
    if authority["decision_id"] is not None:
        return "; ".join(_approval(approval) for approval in authority["approvals"])
    standing = authority["standing_id"]
    by = f"the rule {authority['rule']!r}" if standing is None else f"the standing approval {standing}"
    return f"by {by} under policy {authority['policy_digest'][:12]}"


def _approval(approval: View) -> str:
    behalf = "" if approval["on_behalf_of"] is None else f" for {approval['on_behalf_of']}"
    return f"by {approval['reviewer']}{behalf} at {moment(approval['decided_at'])}"


def _error(effect: View) -> str | None:
    return None if effect["error"] is None else f"{effect['error']['code']}: {effect['error']['message']}"


def _content(result: View) -> str:
    content = result["content"]
    return content if isinstance(content, str) else as_json_text(content)


def _print_part(title: str, rows: list[View], line: Any) -> None:
    if rows:
        print_line(f"\n{title}")
        for row in rows:
            print_line("  " + line(row).replace("\n", "\n    "))


def _attempt(row: View) -> str:
    ended = f"{moment(row['ended_at'])}  {row['outcome']}" if row["ended_at"] else "no outcome"
    return f"{row['number']}. {moment(row['dispatched_at'])} to {ended}  by {row['worker']}{_tail(row['message'])}"


def _transition(row: View) -> str:
    reference = f" [{row['reference']}]" if row["reference"] else ""
    return f"{moment(row['at'])}  {row['from']} to {row['to']}  by {row['actor']}{reference}{_tail(row['reason'])}"


def _evidence(row: View) -> str:
    return f"{moment(row['at'])}  {row['outcome']}  by {row['worker']}{_tail(row['message'])}"


def _tail(text: str | None) -> str:
    return f": {text}" if text else ""


def _print_commands(effect: View) -> None:
    operation = effect["operation_id"]
    ways = {
        "in_doubt": (
            f"resolve {operation} --applied --reference R --reason '…'",
            f"resolve {operation} --not-applied --reason '…'",
            f"skip {operation} --result '…' --reason '…'",
        ),
        "failed": (f"replay {operation} --reason '…'", f"skip {operation} --result '…' --reason '…'"),
    }
    ways["dead"] = ways["failed"]
    if effect["status"] in ways:
        print_line("\nTo settle it:")
        for way in ways[effect["status"]]:
            print_line(f"  signoff effects {way}")
