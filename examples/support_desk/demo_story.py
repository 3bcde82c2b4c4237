"""The demo's course: submits the jobs, follows their events, and has each review decided as it comes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from examples.support_desk.demo_checks import Books
from examples.support_desk.demo_people import Decider
from examples.support_desk.demo_script import DemoJob
from examples.support_desk.demo_system import DemoFailed, Refusal, System
from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_WITHOUT_NEWS = 60.0
MOST_REFUSALS = 20
ENDED = ("succeeded", "failed", "cancelled")


class Story:
    """One run of the demo."""

    def __init__(self, console: Console, system: System, decider: Decider) -> None:
        self._console = console
        self._system = system
        self._decider = decider
        self._jobs: dict[str, tuple[int, DemoJob]] = {}
        self._open: list[str] = []  # reviews that nobody has decided yet
        self._reviews: list[str] = []
        self._ended: set[str] = set()
        self._cursor = "0-0"

    def submit(self, jobs: Sequence[DemoJob]) -> None:
        self._console.print()
        for number, job in enumerate(jobs, start=1):
            self._jobs[self._submit(job)] = number, job
            self._console.print(f"[bold]job {number}[/bold]  {escape(job.input)}", soft_wrap=True)
        self._console.print()

    def follow_to_the_end(self) -> None:
        """Shows what happens, and has reviews decided, until every job has ended.

        Raises:
            DemoFailed: nothing happened for a minute, or a job needs an operator.
        """
        last_news = time.monotonic()
        while len(self._ended) < len(self._jobs):
            if self._show_news() or self._decide_one():
                last_news = time.monotonic()
            elif time.monotonic() - last_news > SECONDS_WITHOUT_NEWS:
                raise DemoFailed(f"nothing happened for {SECONDS_WITHOUT_NEWS:.0f} s, and not all jobs have ended")
            else:
                time.sleep(SECONDS_BETWEEN_LOOKS)

    def books(self, payments: Payments, mailbox: Mailbox) -> Books:
        """What Signoff says, and what the outside services say."""
        brief = [one for job in self._jobs for one in self._system.get("otto", "/v1/effects", job=job)["effects"]]
        effects = [self._system.get("otto", f"/v1/effects/{one['operation_id']}") for one in brief]
        return Books(
            numbers={job: number for job, (number, _) in self._jobs.items()},
            jobs=[self._system.get("otto", f"/v1/jobs/{job}") for job in self._jobs],
            reviews=[self._system.get("otto", f"/v1/reviews/{review}") for review in self._reviews],
            effects=effects,
            refunds=payments.applied(),
            payment_requests=payments.requests(),
            mails=mailbox.mails(),
        )

    def _submit(self, job: DemoJob) -> str:
        deadline = time.monotonic() + SECONDS_WITHOUT_NEWS
        while True:
            try:
                accepted = self._system.post("desk", "/v1/jobs", {"agent": "support-desk", "input": job.input})
                return str(accepted["job_id"])
            except Refusal as error:
                # Until the first worker has told the store of the agent.
                if error.code != "agent_not_found" or time.monotonic() > deadline:
                    raise
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _show_news(self) -> bool:
        news = self._system.get("otto", "/v1/events", after=self._cursor)
        self._cursor = news["next"]
        mine = [event for event in news["events"] if event["data"].get("job_id") in self._jobs]
        for event in mine:
            self._take(event["type"].removeprefix("signoff.").removesuffix(".v1"), event["data"])
        return bool(mine)

    def _take(self, kind: str, data: Mapping[str, Any]) -> None:
        number, _ = self._jobs[data["job_id"]]
        self._console.print(f"  job {number}  {_words(kind, data)}", soft_wrap=True)
        if kind == "review.requested":
            self._reviews.append(data["review_id"])
            self._open.append(data["review_id"])
        if kind == "job.held":
            raise DemoFailed(f"job {number} waits for an operator: {data.get('message')}")
        if kind.partition(".")[2] in ENDED and kind.startswith("job."):
            self._ended.add(data["job_id"])

    def _decide_one(self) -> bool:
        if not self._open:
            return False
        # In the order of the jobs, whichever was parked first.
        reviews = [self._system.get("rita", f"/v1/reviews/{review}") for review in self._open]
        review = min(reviews, key=lambda one: self._jobs[one["job_id"]][0])
        self._open.remove(review["review_id"])
        number, job = self._jobs[review["job_id"]]
        self._console.print(f"\n[bold]job {number}[/bold] waits in the database for a decision of a support lead")
        for _ in range(MOST_REFUSALS):
            decisions = self._decider.decide(job, review)
            try:
                self._system.post("rita", f"/v1/reviews/{review['review_id']}/decisions", {"decisions": decisions})
                return True
            except Refusal as error:
                self._decider.was_refused(str(error))
        raise DemoFailed("every decision was refused")


def _words(kind: str, data: Mapping[str, Any]) -> str:
    if kind == "review.requested":
        calls = "; ".join(f"{one['name']}({_shown(one['args'])})" for one in data["action_requests"])
        return f"[yellow]asks for a review[/yellow] of {escape(calls)}"
    if kind in ("review.decided", "review.expired"):
        found = ", ".join(f"{one['tool']}: {one['type']} by {one['reviewer']}" for one in data["items"])
        return f"[cyan]decided[/cyan] {escape(found)}"
    if kind.startswith("effect."):
        color = "green" if kind == "effect.succeeded" else "red"
        return f"[{color}]effect {kind.removeprefix('effect.')}[/{color}] {escape(data['tool'])}"
    if kind == "job.succeeded":
        return f"[green]answers[/green] {escape(data['result']['text'])}"
    return f"{kind.replace('.', ' ')} {escape(str(data.get('message') or ''))}".rstrip()


def _shown(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in args.items())
