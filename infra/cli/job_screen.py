"""Jobs for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.infra.cli.output import as_json_text, moment, more, print_facts, print_line, print_table


def print_jobs(page: Mapping[str, Any]) -> None:
    columns = ("job", "status", "agent", "thread", "submitted by", "created", "error")
    print_table(columns, [_row(job) for job in page["jobs"]])
    more(page)


def print_job(job: Mapping[str, Any]) -> None:
    """What it is, where it stands, what came of it, and what to do next if it waits for a person."""
    print_facts(
        {
            "job": job["job_id"],
            "status": f"{job['status']}, cancellation requested" if _is_being_cancelled(job) else job["status"],
            "agent": job["agent"],
            "thread": job["thread_id"],
            "submitted": f"{moment(job['created_at'])} by {job['submitted_by']} through {job['door']}",
            "labels": ", ".join(f"{name}={value}" for name, value in job["labels"].items()) or None,
            "due": moment(job["run_at"]),
            "tries": job["tries"] or None,
            "ended": moment(job["ended_at"]),
            "input": job["input"],
            "error": _error(job),
            "result": _result(job["result"]),
        }
    )
    for review_id in job["pending_reviews"]:
        print_line(f"\nIt waits for a decision: signoff reviews show {review_id}")
    if job["status"] == "awaiting_operator":
        print_line(f"\nIt waits for an operator: signoff {_way_on(job)}")
    print_line(f"\nWhat happened: signoff jobs story {job['job_id']}")


def _way_on(job: Mapping[str, Any]) -> str:
    """An effect holds it, or its run can't go on."""
    held = job["error"] is not None and job["error"]["code"] == "effect_held"
    return f"effects list --job {job['job_id']}" if held else f"dead-letters show run:{job['job_id']}"


def _row(job: Mapping[str, Any]) -> tuple[object, ...]:
    names = ("job_id", "status", "agent", "thread_id", "submitted_by")
    return (*(job[name] for name in names), moment(job["created_at"]), job["error"] and job["error"]["code"])


def _is_being_cancelled(job: Mapping[str, Any]) -> bool:
    return bool(job["cancel_requested"]) and job["status"] == "running"


def _error(job: Mapping[str, Any]) -> str | None:
    return None if job["error"] is None else f"{job['error']['code']}: {job['error']['message']}"


def _result(result: Any) -> str | None:
    """The answer alone, where there is nothing else in it."""
    if isinstance(result, dict) and result.keys() <= {"text", "message_id"} and isinstance(result.get("text"), str):
        text: str = result["text"]
        return text
    return None if result is None else as_json_text(result)
