"""Who uses the town, over HTTP alone: a producer, two reviewers who sometimes both decide, and an operator.

They do what careful clients do: send again, with the same key, whatever was not answered.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import httpx

from tests.soak.plan import Plan, Wish
from tests.soak.town import Town
from tests.support.fault_agents import NAME, QUIET_SECONDS

PAUSE_SECONDS = 0.3
AT_ONCE = 12
ALREADY = 409


class People:
    """`accepted`: jobs by key as the api has acknowledged them; `decided`: decisions that were acknowledged."""

    def __init__(self, town: Town, plan: Plan) -> None:
        self._town = town
        self._plan = plan
        self._clients = {name: self._client(name) for name in town.tokens}
        self._seen_doubt: dict[tuple[str, int], float] = {}
        self._deciding: set[str] = set()
        self.accepted: dict[str, str] = {}
        self.decided: list[tuple[str, str]] = []
        self._room = asyncio.Event()
        self._room.set()
        self.acts: Counter[str] = Counter()

    def _client(self, name: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self._town.tokens[name]}"}
        return httpx.AsyncClient(base_url=self._town.api_url, headers=headers, timeout=10, trust_env=False)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def ask(self, who: str, method: str, path: str, **options: Any) -> httpx.Response:
        """Asks until there is an answer that is one."""
        while True:
            try:
                answer = await self._clients[who].request(method, path, **options)
            except httpx.HTTPError:
                self.acts["requests without an answer"] += 1
            else:
                if answer.status_code < 500:
                    return answer
                self.acts["requests answered with 5xx"] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def produce(self, wishes: Iterable[Wish]) -> None:
        """Submits at an even pace, and no faster than jobs end."""
        pace = self._plan.seconds * 0.8 / max(1, self._plan.jobs)
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            due = time.monotonic()
            for wish in wishes:
                await self._room.wait()
                await slots.acquire()
                group.create_task(self._submit(wish, slots))
                due = max(due + pace, time.monotonic() - 5)
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _submit(self, wish: Wish, slots: asyncio.Semaphore) -> None:
        try:
            body = {"agent": NAME, "input": json.dumps(wish.calls), "thread_id": wish.thread_id}
            body = {name: value for name, value in body.items() if value is not None}
            answer = await self._until_accepted(body, wish.key)
            self.accepted[wish.key] = answer.json()["job_id"]
            if wish.is_cancelled:
                await self.ask("shop", "POST", f"/v1/jobs/{answer.json()['job_id']}/cancel")
                self.acts["cancels"] += 1
        finally:
            slots.release()

    async def _until_accepted(self, body: dict[str, Any], key: str) -> httpx.Response:
        while True:
            answer = await self.ask("shop", "POST", "/v1/jobs", json=body, headers={"Idempotency-Key": key})
            if answer.status_code != ALREADY:
                assert answer.status_code in (200, 201), answer.text
                return answer
            # Its thread waits for a review.
            await asyncio.sleep(PAUSE_SECONDS)

    async def count_open(self) -> None:
        """Tells the producer whether there is room for more, for ever."""
        sql = "SELECT count(*) AS n FROM signoff.jobs WHERE ended_at IS NULL"
        while True:
            try:
                async with self._town.store.connection() as conn:
                    row = await (await conn.execute(sql)).fetchone()
                self._make_room(int(row["n"]) if row else 0)
            except Exception:
                self.acts["counts that failed"] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    def _make_room(self, open_jobs: int) -> None:
        if open_jobs < self._plan.most_open_jobs:
            self._room.set()
        else:
            self._room.clear()

    async def review(self) -> None:
        """Decides whatever waits, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                answer = await self.ask("rita", "GET", "/v1/reviews", params={"status": "pending", "limit": 100})
                for review in answer.json()["reviews"]:
                    # What was decided between two looks of the api's has nothing open.
                    if review["review_id"] not in self._deciding and _is_open(review):
                        self._deciding.add(review["review_id"])
                        group.create_task(self._decide(review))
                await asyncio.sleep(PAUSE_SECONDS)

    async def _decide(self, review: dict[str, Any]) -> None:
        chance = random.Random(f"{self._plan.seed} {json.dumps([item['args'] for item in review['items']])}")
        decisions = [_decision(item, chance) for item in review["items"] if item["status"] == "open"]
        await asyncio.sleep(chance.random())
        acts = [self._send(review["review_id"], "rita", decisions)]
        if chance.random() < 0.15:
            self.acts["double decisions"] += 1
            other = [{"type": "reject", "message": "no"} for _ in decisions]
            acts += [self._send(review["review_id"], "rita", decisions), self._send(review["review_id"], "ravi", other)]
        await asyncio.gather(*acts)
        # It is not pending any more, unless it asks anew.
        self._deciding.discard(review["review_id"])

    async def _send(self, review_id: str, who: str, decisions: list[dict[str, Any]]) -> None:
        path = f"/v1/reviews/{review_id}/decisions"
        answer = await self.ask(who, "POST", path, json={"decisions": decisions})
        code = "" if answer.status_code == 200 else f" {answer.json()['code']}"
        self.acts[f"decisions answered with {answer.status_code}{code}"] += 1
        if answer.status_code == 200:
            self.decided.append((review_id, who))

    # --- the operator ------------------------------------------------------------------------------------------

    async def operate(self) -> None:
        """Settles what waits for a person, for ever; looks first, and never sooner than it can be known."""
        while True:
            for status in ("in_doubt", "dead"):
                answer = await self.ask("olga", "GET", "/v1/effects", params={"status": status, "limit": 100})
                for effect in answer.json()["effects"]:
                    await self._settle(effect)
            held = await self.ask("olga", "GET", "/v1/jobs", params={"status": "awaiting_operator", "limit": 100})
            for job in held.json()["jobs"]:
                if (job.get("error") or {}).get("code") != "effect_held":
                    self.acts["jobs retried"] += 1
                    await self.ask("olga", "POST", f"/v1/jobs/{job['job_id']}/retry", json={"reason": "a fault"})
            await asyncio.sleep(1)

    async def _settle(self, effect: dict[str, Any]) -> None:
        seen = (effect["operation_id"], effect["attempts"])
        first = self._seen_doubt.setdefault(seen, time.monotonic())
        if time.monotonic() - first < QUIET_SECONDS or not await self._waits_for_people(effect):
            return
        path = f"/v1/effects/{effect['operation_id']}"
        if effect["status"] == "dead":
            answer = await self.ask("olga", "POST", f"{path}/replay", json={"reason": "the cause is mended"})
        else:
            answer = await self.ask("olga", "POST", f"{path}/resolve", json=self._finding(effect["operation_id"]))
        self.acts[f"settlements of {effect['status']} answered with {answer.status_code}"] += 1

    async def _waits_for_people(self, effect: dict[str, Any]) -> bool:
        job = (await self.ask("olga", "GET", f"/v1/jobs/{effect['job_id']}")).json()
        now = (await self.ask("olga", "GET", f"/v1/effects/{effect['operation_id']}")).json()
        unchanged = (now["status"], now["attempts"]) == (effect["status"], effect["attempts"])
        return unchanged and job["status"] in ("awaiting_operator", "succeeded", "failed", "cancelled")

    def _finding(self, operation: str) -> dict[str, Any]:
        done = self._town.provider.has_done(operation)
        found = {"finding": "not_applied"} if done is None else {"finding": "applied", "reference": done}
        return {**found, "reason": "looked into the provider's books"}


def _is_open(review: dict[str, Any]) -> bool:
    return any(item["status"] == "open" for item in review["items"])


def _decision(item: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    drawn = chance.random()
    if drawn < 0.1:
        return {"type": "reject", "message": "not this one"}
    if drawn < 0.2 and item["tool"] == "pay":
        args = {**item["args"], "amount": item["args"]["amount"] / 2}
        return {"type": "edit", "edited_action": {"name": "pay", "args": args}}
    return {"type": "approve"}
