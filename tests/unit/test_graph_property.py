"""The graph, for any mix of verdicts and decisions: what was allowed runs once, and nothing else does."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.domain import allow, deny, review
from tests.support.graph_runs import APPROVE, EXPIRED, GraphRun, edit, reject, respond
from tests.support.models import calling, is_complete, scripted

RULES = [
    allow("pay", when="args.note == 'allow'", reviewers=["leads"]),
    review("pay", when="args.note == 'review'", reviewers=["leads"]),
    deny("pay", when="args.note == 'deny'", reviewers=["leads"]),
]
EDITED = edit(amount=-1, note="review")
DECISIONS = [APPROVE, EDITED, reject("No"), reject("No", "stop"), reject(None, "ask"), respond("Done"), EXPIRED, None]
VERDICTS = ["allow", "review", "review", "deny", "misfit"]

# Amounts are places, so that each call is a call of its own; an edit of the call at `place` pays -place - 1.
Vector = list[list[tuple[str, int]]]
vectors = st.lists(
    st.lists(st.tuples(st.sampled_from(VERDICTS), st.integers(0, len(DECISIONS) - 1)), min_size=1, max_size=5),
    min_size=1,
    max_size=3,
)


def args_of(place: int, verdict: str) -> dict[str, Any]:
    return {"amount": "much" if verdict == "misfit" else place, "note": verdict}


def outcome_of(place: int, decision: int) -> dict[str, Any] | None:
    outcome = DECISIONS[decision]
    return edit(amount=-place - 1, note="review") if outcome is EDITED else outcome


async def play(rounds: Vector) -> tuple[GraphRun, list[int]]:
    """Plays the rounds one after the other; returns the amounts that had leave to be paid."""
    numbered = [[(100 * n + i, *pair) for i, pair in enumerate(calls)] for n, calls in enumerate(rounds)]
    messages = [calling(*(("pay", args_of(place, verdict)) for place, verdict, _ in calls)) for calls in numbered]
    run = GraphRun(scripted(*messages, "Done."), rules=RULES)
    await run.say()
    leave: list[int] = []
    stopped = False
    for calls in numbered:
        leave += [place for place, verdict, _ in calls if verdict == "allow"]
        asked = [] if stopped else [(place, decision) for place, verdict, decision in calls if verdict == "review"]
        if not asked:
            continue
        assert [item["args"] for item in await run.items()] == [args_of(place, "review") for place, _ in asked]
        outcomes = [outcome_of(place, decision) for place, decision in asked]
        await run.decide(*outcomes)
        leave += [place for (place, _), outcome in zip(asked, outcomes, strict=True) if outcome == APPROVE]
        leave += [outcome["args"]["amount"] for outcome in outcomes if outcome and outcome["type"] == "edit"]
        stopped |= any(outcome and outcome.get("then") == "stop" for outcome in outcomes)
    return run, leave


@settings(max_examples=60, deadline=None)
@given(vectors)
def test_exactly_what_was_allowed_runs_once(rounds: Vector) -> None:
    async def scenario() -> None:
        run, leave = await play(rounds)
        assert await run.pauses() == []
        assert Counter(args["amount"] for _, args in run.executor.ran) == Counter(leave)
        assert len({call["operation_id"] for call in run.executor.calls}) == len(run.executor.calls)
        assert all(is_complete(history) for history in run.model.asked)
        assert len(run.model.asked) == len(rounds) + 1
        assert len(await run.answers()) == len(rounds) + 1

    asyncio.run(scenario())
