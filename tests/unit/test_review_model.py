"""Every path that a review can take: who decides, edits, decides again, escalates, claims, cancels, expires, revokes.

Beside the rules stands a plain model of who may decide what, written down once more and otherwise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from signoff.domain.authority import Delegation, Grant, Principal, PrincipalKind, Right
from signoff.domain.canonical import call_digest
from signoff.domain.decisions import parse_answers
from signoff.domain.errors import AlreadyDecided, NotAReviewer, ReviewClaimed, SignoffError
from signoff.domain.judging import Judged, judge_answers
from signoff.domain.laddering import above
from signoff.domain.ladders import Rung
from signoff.domain.policy import DecisionType, Policy, deny, review
from signoff.domain.registered import Registered
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import (
    ITEM_TRANSITIONS,
    REVIEW_TRANSITIONS,
    Decision,
    Item,
    ItemStatus,
    Proposal,
    Review,
    ReviewStatus,
    Settled,
    completes,
    with_settled,
)
from tests.unit.test_reviews import NOW, a_review, an_item

FINANCE, DIRECTORS = ["finance"], ["directors"]
LOOSE = Policy(
    [
        deny("refund", when="args.amount > 1000", reviewers=FINANCE),
        review("refund", when="args.amount > 500", reviewers=DIRECTORS),
        review("refund", when="args.amount > 50", reviewers=FINANCE, approvals=2),
        review("refund", reviewers=FINANCE),
    ]
)
TIGHT = Policy(
    [
        deny("refund", when="args.amount > 100", reviewers=FINANCE),
        review("refund", reviewers=FINANCE, approvals=2),
    ]
)
LADDER = (Rung(60), Rung(120, ("directors",)), Rung(180, ("@sam",), replace=True))
GROUPS: Mapping[str, set[str]] = {
    "rita": {"finance"},
    "ravi": {"finance"},
    "pat": {"finance", "directors"},  # who submitted the job
    "lim": {"finance"},  # limited to small refunds
    "dora": {"directors"},
    "dan": {"support"},  # decides in ravi's place
    "sam": {"legal"},
}
SMALL = 50
OPEN = ItemStatus.open
ALLOWING = (DecisionType.approve, DecisionType.edit)

people = st.sampled_from(sorted(GROUPS))
actors = st.sampled_from(["rita", "rita", "ravi", "ravi", "dan", "dora", "dora", "lim", "pat", "sam"])
seldom = st.integers(0, 4).map(lambda number: number == 0)
places = st.integers(0, 1)
amounts = st.sampled_from([10, 40, 80, 600, 2000])


class Reviews(RuleBasedStateMachine):
    """A review of two calls: the first needs one person, the second two, and its edits another one."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.policy = LOOSE
        self.revoked: set[str] = set()
        much = {"amount": 80}
        one = an_item(0, terms=ReviewTerms(ladder=LADDER), deadline_at=NOW + timedelta(seconds=300))
        two = ReviewTerms(approvals=2, ladder=LADDER, edits_need_another=True)
        self.review = a_review(one, an_item(1, terms=two, args=much, digest=call_digest("refund", much)))
        self.needed: dict[UUID, int] = {}
        self.authorised: set[UUID] = set()

    # --- the store -------------------------------------------------------------------------------------------

    def become(self, after: Review) -> None:
        """What a guarded statement does; states move along the tables, and an end is for good."""
        before = self.review
        assert after.status is before.status or after.status in REVIEW_TRANSITIONS[before.status]
        for old, new in zip(before.items, after.items, strict=True):
            assert new.status is old.status or new.status in ITEM_TRANSITIONS[old.status]
            assert old.status is OPEN or new == old, "it had ended"
            assert all(decision in new.decisions for decision in old.decisions), "a decision is never lost"
        self.review = after

    def put(self, *items: Item) -> None:
        changed = {item.id: item for item in items}
        self.become(replace(self.review, items=tuple(changed.get(item.id, item) for item in self.review.items)))

    def store(self, settled: Settled) -> None:
        if settled.ends:
            self.become(with_settled(self.review, [settled]))
        else:
            item = replace(settled.item, earlier=(*settled.item.earlier, settled.decision))
            self.put(item if settled.revision is None else _amended(item, settled))
            if self.review.claimed_by is not None:
                self.become(replace(self.review, claimed_by=None, claimed_until=None))
        self.close()

    def close(self, status: ReviewStatus | None = None) -> None:
        if self.review.status is ReviewStatus.pending and completes(self.review, ()):
            expired = any(item.status is ItemStatus.expired for item in self.review.items)
            ended = ReviewStatus.expired if expired else ReviewStatus.decided
            self.become(replace(self.review, status=status or ended))

    # --- who may what, once more --------------------------------------------------------------------------------

    def who(self, name: str) -> Principal:
        grants = (Grant(uuid4(), ("refund",), f"args.amount <= {SMALL}"),) if name == "lim" else ()
        person = Principal(
            name,
            PrincipalKind.person,
            frozenset(GROUPS[name]),
            frozenset({Right.review}),
            revoked=name in self.revoked,
            limited=name == "lim",
            grants=grants,
        )
        if name != "dan":
            return person
        return replace(person, delegations=(Delegation(Grant(uuid4(), ("refund",)), self.who("ravi")),))

    def may(self, name: str, item: Item, amount: int, reviewers: tuple[str, ...] | None = None) -> bool:
        """By one's own right, or in ravi's place where he has had no voice."""
        asked = item.may_decide if reviewers is None else reviewers
        if name in self.revoked or name == "pat":
            return False
        if f"@{name}" in asked or GROUPS[name] & set(asked):
            return name != "lim" or amount <= SMALL
        return name == "dan" and self.may("ravi", item, amount, asked) and "ravi" not in item.spoken

    def can_be_decided(self, item: Item, name: str) -> bool:
        """Apart from who may: it is open, in time, and not held by somebody else."""
        in_time = item.deadline_at is None or self.now < item.deadline_at
        return item.status is OPEN and in_time and not self.held_from(name)

    def held_from(self, name: str) -> bool:
        by, until = self.review.claimed_by, self.review.claimed_until
        return by not in (None, name) and until is not None and self.now < until

    # --- what people do ------------------------------------------------------------------------------------------

    def judge(self, name: str, raw: Mapping[str, Any]) -> Judged | SignoffError:
        before = copy.deepcopy(self.review)
        try:
            return judge_answers(
                self.review,
                parse_answers({"decisions": [raw]}),
                self.who(name),
                now=self.now,
                registered=Registered("desk", {"submitted_by": "pat"}, "test", self.policy, {}),
                lineage_root="root",
                new_id=uuid4,
            )
        except SignoffError as error:
            return error
        finally:
            assert self.review == before, "judging changes nothing"

    def take(self, name: str, item: Item, judged: Judged | SignoffError) -> Decision | None:
        """Stores what was judged to be new, if that was right."""
        if isinstance(judged, SignoffError) or not judged.new:
            return None
        (settled,) = judged.new
        decision, amount = settled.decision, _amount(item.args)
        assert self.can_be_decided(item, name)
        assert self.may(name, item, amount), "decided without authority"
        assert name not in item.spoken
        self._note(item, settled)
        self.store(settled)
        return decision

    def _note(self, item: Item, settled: Settled) -> None:
        decision, amount = settled.decision, _amount(settled.decision.args)
        if decision.type is DecisionType.edit:
            judgement = self.policy.judge("refund", dict(decision.args or {}), job={}, environment="test")
            assert judgement.verdict == "review", "what is denied is refused"
            if decision.counts and self.may(decision.reviewer, item, amount, judgement.reviewers):
                self.authorised.add(decision.id)
            needed = max(judgement.approvals, 2 if item.terms.edits_need_another else 1)
        else:
            self.authorised.add(decision.id)
            needed = item.terms.approvals
        if settled.ends and decision.allows:
            self.needed[item.id] = needed

    @rule(name=actors, place=places, revision=st.sampled_from([None, 0, 0, 0, 1, -1]))
    def approve(self, name: str, place: int, revision: int | None) -> None:
        item = self.review.items[place]
        seen = None if revision is None else max(1, item.revision + revision)
        judged = self.judge(name, {"type": "approve", "item_id": str(item.id), "revision": seen})
        current = seen == item.revision or (seen is None and item.revision == 1)
        free = name not in item.spoken and not _has_spoken(name, item)
        due = current and free and self.can_be_decided(item, name) and self.may(name, item, _amount(item.args))
        assert self.take(name, item, judged) is not None or not due, judged

    @rule(name=actors, place=places, kind=st.sampled_from(["reject", "respond"]), now=seldom)
    def answer(self, name: str, place: int, kind: str, now: bool) -> None:
        item = self.review.items[place]
        raw = {"type": kind, "item_id": str(item.id), "message": "no", "revision": item.revision}
        decision = self.take(name, item, self.judge(name, raw)) if now else None
        assert decision is None or self.review.items[place].status is ItemStatus.decided

    @rule(name=actors, place=places, amount=amounts)
    def edit(self, name: str, place: int, amount: int) -> None:
        item = self.review.items[place]
        action = {"name": "refund", "args": {"amount": amount}}
        raw = {"type": "edit", "item_id": str(item.id), "edited_action": action, "revision": item.revision}
        self.take(name, item, self.judge(name, raw))

    @rule(name=people, place=places, digest=st.sampled_from(["of another call", ""]))
    def decide_what_was_not_seen(self, name: str, place: int, digest: str) -> None:
        item = self.review.items[place]
        judged = self.judge(name, {"type": "approve", "item_id": str(item.id), "digest": digest})
        assert isinstance(judged, SignoffError) or not judged.new

    @rule(place=places, data=st.data())
    def decide_again(self, place: int, data: st.DataObject) -> None:
        item = self.review.items[place]
        if not item.decisions:
            return
        stored = data.draw(st.sampled_from(item.decisions))
        judged = self.judge(stored.reviewer, _sent_again(stored))
        if stored.reviewer in self.revoked:
            assert isinstance(judged, NotAReviewer)
        else:
            assert judged == Judged((), (stored,))

    @rule(name=people, place=places)
    def decide_what_is_decided(self, name: str, place: int) -> None:
        item = self.review.items[place]
        winner = item.decision
        if winner is None or name in self.revoked or not self.may(name, item, SMALL):
            return
        judged = self.judge(name, {"type": "reject", "item_id": str(item.id), "message": "I never say this"})
        assert isinstance(judged, AlreadyDecided)
        assert judged.details["winner"] == winner.brief()

    # --- what happens meanwhile -----------------------------------------------------------------------------------

    @rule(name=people, now=seldom)
    def revoke(self, name: str, now: bool) -> None:
        if now and len(self.revoked) < 3:
            self.revoked.add(name)

    @rule(now=seldom)
    def tighten(self, now: bool) -> None:
        if now:
            self.policy = TIGHT

    @precondition(lambda self: self.review.status is ReviewStatus.pending)
    @rule(name=people, seconds=st.sampled_from([30, 200]), now=seldom)
    def claim(self, name: str, seconds: int, now: bool) -> None:
        if now and not self.held_from(name):
            until = self.now + timedelta(seconds=seconds)
            self.become(replace(self.review, claimed_by=name, claimed_until=until))

    @rule(name=people)
    def a_claim_keeps_others_out(self, name: str) -> None:
        if not self.held_from(name):
            return
        for item in self.review.items:
            if item.status is OPEN and self.can_be_decided(item, str(self.review.claimed_by)):
                judged = self.judge(name, {"type": "reject", "item_id": str(item.id), "revision": item.revision})
                unheard = not _has_spoken(name, item) and not (item.proposed and item.proposed.amended_by == name)
                assert isinstance(judged, ReviewClaimed) or not (unheard and self.may(name, item, _amount(item.args)))

    @precondition(lambda self: self.review.status is ReviewStatus.pending)
    @rule(place=places, now=seldom)
    def climb(self, place: int, now: bool) -> None:
        item = self.review.items[place]
        if now and item.status is OPEN and item.rung < len(LADDER):
            self.put(above(item))
            self.become(replace(self.review, claimed_by=None, claimed_until=None))

    @rule(seconds=st.sampled_from([10, 100, 400]), now=seldom)
    def pass_time(self, seconds: int, now: bool) -> None:
        self.now += timedelta(seconds=seconds if now else 0)

    @precondition(lambda self: self.review.status is ReviewStatus.pending)
    @rule()
    def fire_deadlines(self) -> None:
        self._expire()
        self.close()

    @precondition(lambda self: self.review.status is ReviewStatus.pending)
    @rule(now=seldom)
    def cancel(self, now: bool) -> None:
        if not now:
            return
        self._expire()
        self._end(ItemStatus.cancelled, lambda _: True)
        self.close(ReviewStatus.cancelled)

    def _expire(self) -> None:
        self._end(ItemStatus.expired, lambda item: item.deadline_at is not None and item.deadline_at <= self.now)

    def _end(self, status: ItemStatus, which: Callable[[Item], bool]) -> None:
        self.put(*(replace(item, status=status) for item in self.review.items if item.status is OPEN and which(item)))

    # --- what always holds ----------------------------------------------------------------------------------------

    @invariant()
    def only_decided_items_have_a_decision(self) -> None:
        for item in self.review.items:
            assert (item.decision is not None) == (item.status is ItemStatus.decided)
        assert (self.review.status is ReviewStatus.pending) == any(item.status is OPEN for item in self.review.items)

    @invariant()
    def what_is_allowed_has_enough_voices_for_exactly_this_call(self) -> None:
        for item in self.review.items:
            final = item.decision
            if final is None or not final.allows:
                continue
            call = (final.operation_id, final.digest)
            voices = [
                one
                for one in item.decisions
                if one.type in ALLOWING and one.counts and (one.operation_id, one.digest) == call
            ]
            persons = [name for voice in voices for name in voice.authority.people]
            assert len(persons) == len(set(persons)), "a voice counted twice"
            assert len(voices) >= self.needed[item.id]
            assert {voice.id for voice in voices} <= self.authorised
            assert "pat" not in persons, "four eyes"

    @invariant()
    def an_open_item_waits_for_somebody_more(self) -> None:
        for item in self.review.items:
            assert item.status is not OPEN or len(item.voices) < item.terms.approvals


def _amended(item: Item, settled: Settled) -> Item:
    """As the store keeps it: the amended call is the item's, and whoever was asked besides is asked no more."""
    revision = settled.revision
    assert revision is not None
    names = ("revision", "operation_id", "edits", "tool", "args", "digest", "reviewers", "terms", "allowed_decisions")
    after = {name: getattr(revision, name) for name in names}
    proposed = Proposal(item.tool, item.args, item.digest, revision.proposed_by)
    return replace(item, proposed=proposed, assigned_to=(), escalated_to=(), replaced=False, **after)


def _has_spoken(name: str, item: Item) -> bool:
    """True for who has decided on this revision, in whosever place, or has made it."""
    return any(name in one.authority.people and one.revision == item.revision for one in item.decisions)


def _amount(args: Mapping[str, Any] | None) -> int:
    return int((args or {})["amount"])


def _sent_again(stored: Decision) -> dict[str, Any]:
    raw: dict[str, Any] = {"type": str(stored.type), "item_id": str(stored.item_id), "revision": stored.revision}
    if stored.message is not None:
        raw["message"] = stored.message
    if stored.type is DecisionType.edit:
        raw["edited_action"] = {"name": stored.tool, "args": dict(stored.args or {})}
    return raw


TestReviews = Reviews.TestCase
TestReviews.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
