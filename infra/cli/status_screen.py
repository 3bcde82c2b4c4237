"""How everything stands, on one screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from signoff.domain.jobs import JobStatus
from signoff.infra.cli.output import moment, print_facts, print_line, print_table

View = Mapping[str, Any]
UNFINISHED = ("waiting", "queued", "running", "awaiting_review", "awaiting_operator")
ENDED = ("succeeded", "failed", "cancelled")
# Well beyond how often a worker says that it is there.
SILENT_SECONDS = 60


def print_status(status: View) -> None:
    _print_needs(status)
    _print_jobs(status)
    print_line("")
    print_facts(
        {
            "at": moment(status["at"]),
            "next deadline": _next_deadline(status),
            "outbox": _lag(status, status["unsent_events"], "event"),
            "webhooks": _lag(status, status["pending_sendings"], "sending"),
            "pauses": "\n".join(map(_pause, status["pauses"])) or "none",
            "circuits": "\n".join(map(_circuit, status["circuits"])) or "none open",
            "workers": "\n".join(map(_worker, status["workers"])) or "none seen",
        }
    )


def age(at: str, time: str) -> str:
    """How long before `at` the time was: `45s`, `12m`, `3h`, `2d`."""
    seconds = max(0, (datetime.fromisoformat(at) - datetime.fromisoformat(time)).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _print_needs(status: View) -> None:
    needs = status["needs"]
    if not needs:
        print_line("Nothing needs a person.\n")
        return
    rows = [(need["count"], need["what"], _since(status, need["oldest_at"]), need["command"]) for need in needs]
    print_table(("", "needs a person", "oldest", "see and settle"), rows)
    print_line("")


def _print_jobs(status: View) -> None:
    """Unfinished jobs by agent and state; of those that ended, the ones that were submitted within a day."""
    counts: dict[str, dict[str, int]] = {}
    for row in [*status["jobs"], *status["last_day"]]:
        counts.setdefault(row["agent"], {})[row["status"]] = row["count"]
    columns = ("agent", *UNFINISHED, *(f"{word} (1d)" for word in ENDED))
    words: Sequence[str] = (*UNFINISHED, *ENDED)
    assert set(words) == set(JobStatus)
    print_table(columns, [(agent, *(of.get(word, 0) for word in words)) for agent, of in sorted(counts.items())])


def _since(status: View, time: str | None) -> str | None:
    return None if time is None else age(status["at"], time)


def _next_deadline(status: View) -> str | None:
    return moment(status["reviews"]["next_deadline_at"])


def _lag(status: View, lag: View, noun: str) -> str:
    if not lag["count"]:
        return "nothing waits"
    many = "" if lag["count"] == 1 else "s"
    return f"{lag['count']} {noun}{many}, the oldest for {age(status['at'], lag['oldest_at'])}"


def _pause(pause: View) -> str:
    of = " of ".join(part for part in (pause["tool"], pause["agent"]) if part) or "everything"
    return (
        f"{of}, since {moment(pause['created_at'])} by {pause['created_by']}: {pause['reason']} ({pause['pause_id']})"
    )


def _circuit(circuit: View) -> str:
    last = f": {circuit['last_error']}" if circuit["last_error"] else ""
    return f"{circuit['provider']}, until {moment(circuit['open_until'])}, {circuit['failures']} bad ends{last}"


def _worker(worker: View) -> str:
    words = [f"{worker['name']} ({', '.join(worker['agents'])})"]
    words += [f"silent for {worker['silent_seconds']:.0f}s"] if worker["silent_seconds"] > SILENT_SECONDS else []
    words += ["drains"] if worker["drain_requested_at"] and not worker["drained_at"] else []
    words += ["drained"] if worker["drained_at"] else []
    return ", ".join(words)
