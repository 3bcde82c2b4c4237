"""The ledger for people to read: one effect on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.infra.cli.output import as_json_text, moment, more, print_facts, print_line, print_table

View = Mapping[str, Any]
NOT_KEPT = "no longer kept"
REASON = "--reason '…'"


def print_effects(page: View) -> None:
    columns = ("operation", "status", "tool", "attempts", "job", "created", "in doubt since", "error")
    print_table(columns, [_row(effect) for effect in page["effects"]])
    more(page)


def print_effect(effect: View) -> None:
    """What was allowed and by whom, every try, every transition, what came back late, and what to do about it."""
    print_facts(
        {
            "operation": effect["operation_id"],
            "status": _status(effect),
            "tool": f"{effect['tool']} ({effect['class'] or 'not sent yet'})",
            "provider": effect["provider"],
            "job": effect["job_id"],
            "of": _origin(effect["origin"]),
            "referred to by": "\n".join(effect["referred_by"]) or None,
            "allowed": _authority(effect["authority"]),
            "arguments": NOT_KEPT if effect["purged_at"] else as_json_text(effect["args"]),
            "generation": effect["generation"] or None,
            "reference": effect["provider_reference"],
            "last sent": moment(effect["last_dispatched_at"]),
            "in doubt since": moment(effect["doubt_since"]),
            "next try": _next_try(effect),
            "next probe": moment(effect["probe_at"]),
            "changed": effect["changed"],
            "error": _error(effect),
            "result": _result(effect),
        }
    )
    _print_part("Attempts", effect["attempt_log"], _attempt)
    _print_part("History", effect["history"], _transition)
    _print_part("What came back late", effect["evidence"], _evidence)
    _print_part("What its provider said", effect["probes"], _probe)
    _print_part("Alarms", effect["alarms"], _alarm)
    _print_part("What operators did", effect["acts"], _act)
    _print_part("Waits for a second person", [effect["settlement"]] if effect["settlement"] else [], _settlement)
    _print_commands(effect)


def _row(effect: View) -> tuple[object, ...]:
    waits = f" ({effect['waits_for']})" if effect["waits_for"] else ""
    head = (effect["operation_id"], effect["status"] + waits, effect["tool"], effect["attempts"], effect["job_id"])
    times = (moment(effect["created_at"]), moment(effect["doubt_since"]))
    return (*head, *times, effect["error"] and effect["error"]["code"])


def _authority(authority: View) -> str:
    if authority["decision_id"] is not None:
        return "; ".join(_approval(approval) for approval in authority["approvals"])
    standing = authority["standing_id"]
    by = f"the rule {authority['rule']!r}" if standing is None else f"the standing approval {standing}"
    return f"by {by} under policy {authority['policy_digest'][:12]}"


def _approval(approval: View) -> str:
    behalf = "" if approval["on_behalf_of"] is None else f" for {approval['on_behalf_of']}"
    return f"by {approval['reviewer']}{behalf} at {moment(approval['decided_at'])}"


def _status(effect: View) -> str:
    words = [effect["status"]]
    words += ["runs by itself"] if effect["alone"] else []
    words += ["an operator is to look at it"] if effect["holds"] and effect["status"] == "failed" else []
    return ", ".join(words)


def _origin(origin: View | None) -> str | None:
    if origin is None:
        return None
    kind = "the same call once more as" if origin["kind"] == "again" else "the compensation of"
    return f"{kind} {origin['operation_id']}"


def _next_try(effect: View) -> str | None:
    waits = f", held back by a {effect['waits_for']}" if effect["waits_for"] not in (None, "answer") else ""
    return f"{moment(effect['retry_at'])}{waits}" if effect["retry_at"] else None


def _error(effect: View) -> str | None:
    return None if effect["error"] is None else f"{effect['error']['code']}: {effect['error']['message']}"


def _result(effect: View) -> str | None:
    if effect["purged_at"] is not None:
        return NOT_KEPT
    return None if effect["result"] is None else _content(effect["result"])


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
    about = f" of try {row['attempt']}" if row["attempt"] else ""
    settled = ", which settled it" if row["settled"] else ""
    return f"{moment(row['at'])}  {row['outcome']}{about}  by {row['worker']}{settled}{_tail(row['message'])}"


def _probe(row: View) -> str:
    reference = f" [{row['reference']}]" if row["reference"] else ""
    said = row["finding"].replace("_", " ")
    return (
        f"{moment(row['at'])}  {said}{reference} after try {row['attempt']}  by {row['actor']}{_tail(row['message'])}"
    )


def _alarm(row: View) -> str:
    seen = f"  seen by {row['acknowledged_by']} at {moment(row['acknowledged_at'])}" if row["acknowledged_by"] else ""
    return f"{moment(row['at'])}  {row['kind']}{_tail(row['message'])}{seen}"


def _act(row: View) -> str:
    return f"{moment(row['at'])}  {row['act']}  by {row['actor']}{_tail(row['reason'])}"


def _settlement(row: View) -> str:
    found = ", ".join(f"{name} {value}" for name, value in row["body"].items() if value is not None)
    return f"{moment(row['proposed_at'])}  {row['act']} ({found})  by {row['proposed_by']}{_tail(row['reason'])}"


def _tail(text: str | None) -> str:
    return f": {text}" if text else ""


def _print_commands(effect: View) -> None:
    ways = settling_commands(effect)
    if ways:
        print_line("\nTo settle it:")
        for way in ways:
            print_line(f"  signoff {way}")


def settling_commands(effect: View) -> list[str]:
    """What settles it, ready to copy, and what is most likely right first."""
    seen = [alarm["alarm_id"] for alarm in effect["alarms"] if alarm["acknowledged_at"] is None]
    return [
        *(f"effects {way}" for way in _ways(effect)),
        *(f"alarms acknowledge {alarm_id} {REASON}" for alarm_id in seen),
    ]


def _ways(effect: View) -> list[str]:
    """What one person has found is confirmed; a provider that can be asked is asked."""
    operation = effect["operation_id"]
    if effect["settlement"]:
        finding = f"{operation} --settlement {effect['settlement']['settlement_id']} {REASON}"
        return [f"confirm {finding}", f"withdraw {finding}"]
    skip = f"skip {operation} --result '…' {REASON}"
    if effect["status"] == "in_doubt":
        ask = [f"probe {operation} {REASON}"] if effect["class"] == "queryable" else []
        resolve = f"resolve {operation}"
        return [*ask, f"{resolve} --applied --reference R {REASON}", f"{resolve} --not-applied {REASON}", skip]
    if effect["status"] in ("failed", "dead") and effect["purged_at"] is None:
        return [f"replay {operation} {REASON}", skip]
    return []
