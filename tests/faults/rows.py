"""The table of faults, and which tests prove each row of it; or why a row can't be met here.

    python -m tests.faults.rows      what `make faults` runs: this folder, and the tests elsewhere that rows need

A test is named by its file, or by file::name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

FAULTS = "tests/faults"
ACCEPTANCE = "tests/acceptance"
INTEGRATION = "tests/integration"


@dataclass(frozen=True, slots=True)
class Row:
    """`missing` says what of the row is not tried, and why; all of it where there are no tests."""

    fault: str
    tests: tuple[str, ...] = field(default=())
    missing: str | None = None


ROWS: dict[str, Row] = {
    "R1": Row(
        "a worker is killed at every step",
        (f"{FAULTS}/test_r01_killed_workers.py", f"{ACCEPTANCE}/test_killed_workers.py"),
    ),
    "R2": Row("a commit succeeds, and its caller sees an error", (f"{FAULTS}/test_r02_r03_lost_commits.py",)),
    "R3": Row("a commit fails, and its caller can't tell", (f"{FAULTS}/test_r02_r03_lost_commits.py",)),
    "R4": Row(
        "Postgres restarts all the time",
        (f"{FAULTS}/test_r04_restarted_postgres.py", f"{ACCEPTANCE}/test_lost_postgres.py"),
    ),
    "R5": Row(
        "Postgres fails over to a standby that lags",
        missing="one server comes with the packages, and no standby; what it loses is what R28 loses, and is told so",
    ),
    "R6": Row(
        "the broker restarts, its queue is emptied, messages are lost",
        (f"{FAULTS}/test_r06_r07_messages.py", f"{ACCEPTANCE}/test_lost_redis.py"),
    ),
    "R7": Row(
        "messages come 2 to 50 times, in any order, long after their time",
        (f"{FAULTS}/test_r06_r07_messages.py", f"{ACCEPTANCE}/test_same_job.py"),
    ),
    "R8": Row("two to five workers take one thread", (f"{FAULTS}/test_r08_races_for_a_thread.py",)),
    "R9": Row(
        "a worker stands still past its lease and wakes up",
        (f"{FAULTS}/test_r09_late_answers.py", f"{ACCEPTANCE}/test_stopped_workers.py"),
    ),
    "R10": Row(
        "a tool takes longer than lease and time-outs",
        (f"{FAULTS}/test_r11_provider.py::test_a_call_that_takes_longer_than_the_lease_is_made_once",),
    ),
    "R11": Row(
        "the provider's answer is lost, applied or not, or applied later than it is asked",
        (f"{FAULTS}/test_r11_provider.py::test_each_way_once", f"{ACCEPTANCE}/test_provider_faults.py"),
    ),
    "R12": Row(
        "the provider's key runs out during a pause",
        (f"{FAULTS}/test_r09_late_answers.py::test_nothing_is_sent_with_a_key_that_has_run_out",),
    ),
    "R13": Row(
        "429 with Retry-After, storms of 5xx, answers that are huge or can't be read",
        (
            f"{FAULTS}/test_r11_provider.py::test_a_storm_of_errors_is_weathered_within_the_budget",
            f"{FAULTS}/test_r11_provider.py::test_a_huge_answer_is_kept_aside_and_not_told",
            f"{FAULTS}/test_r11_provider.py::test_each_way_once",
        ),
    ),
    "R14": Row(
        "the clocks of workers and database differ",
        (f"{FAULTS}/test_r14_shifted_clocks.py",),
        missing="clocks that C code reads by itself are not shifted; the database's own clock does not jump",
    ),
    "R15": Row(
        "a decision against deadline, cancelling, reassigning",
        (f"{FAULTS}/test_review_races.py", f"{INTEGRATION}/test_races_for_a_review.py"),
    ),
    "R16": Row(
        "a decision while the job parks, and while it resumes",
        (f"{FAULTS}/test_r16_decisions_around_a_park.py", f"{INTEGRATION}/test_calls_beside_a_review.py"),
        missing="none can come before the park: a review has no id, and nobody hears of it, until it is committed",
    ),
    "R17": Row(
        "forged, replayed, stale and changed webhooks",
        (f"{INTEGRATION}/test_webhooks_decisions.py", f"{INTEGRATION}/test_streams_decisions.py"),
    ),
    "R18": Row(
        "links that bots follow, double clicks",
        (
            f"{INTEGRATION}/test_http_reading.py::test_no_get_and_no_head_changes_anything",
            f"{INTEGRATION}/test_http_reviews.py::test_twenty_equal_decisions_at_once_get_equal_answers",
        ),
    ),
    "R19": Row("a model that answers otherwise when asked again", (f"{FAULTS}/test_r19_changed_answers.py",)),
    "R20": Row(
        "several calls in one turn, decided one by one and differently",
        ("tests/unit/test_graph_property.py", f"{INTEGRATION}/test_use_cases_deciding.py"),
    ),
    "R21": Row("old and new versions on one database", (f"{FAULTS}/test_r21_rolling_upgrade.py",)),
    "R22": Row(
        "operators replay twice, are cut off, and only look",
        (
            f"{INTEGRATION}/test_replays.py::test_what_was_stopped_goes_on_and_acts_once_for_each",
            f"{INTEGRATION}/test_replays.py::test_a_race_for_one_item_refuses_that_one_alone",
            f"{INTEGRATION}/test_replays.py::test_a_plan_says_what_would_be_done_and_is_done_once",
        ),
    ),
    "R23": Row("messages that can't be read, results that can't be kept", (f"{INTEGRATION}/test_streams_poison.py",)),
    "R24": Row(
        "disk full, no connections, time-outs, deadlocks",
        (f"{FAULTS}/test_r24_database_errors.py",),
        missing="a really full disk needs a file system of its own: a trigger raises the server's errors",
    ),
    "R25": Row("one tenant's ids at another's", missing="there are no tenants yet"),
    "R26": Row("the audit is edited", (f"{INTEGRATION}/test_audit_sealing.py", "tests/unit/test_audit_chain.py")),
    "R27": Row(
        "everything together, at random", missing="`make soak` is its own target: it takes a quarter of an hour"
    ),
    "R28": Row(
        "a backup of yesterday is restored",
        (f"{FAULTS}/test_r28_restored_backup.py", f"{FAULTS}/test_r28_unsaid_restore.py"),
    ),
}


def elsewhere() -> Iterator[str]:
    """The tests that rows need and that are not in this folder."""
    named = {test for row in ROWS.values() for test in row.tests if not test.startswith(FAULTS)}
    yield from sorted(named)


if __name__ == "__main__":
    print(" ".join([FAULTS, *elsewhere()]))
