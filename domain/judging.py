"""Whether answers to a review may be stored: the whole of promise 3, for every door.

What `judge_answers` returns may be stored, what it raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from signoff.domain.amending import Amendment, amend
from signoff.domain.authority import Authority, Principal, is_reviewer, require_reviewer
from signoff.domain.canonical import operation_id
from signoff.domain.deciders import authority_on, require_unclaimed
from signoff.domain.decisions import Answer, NextStep
from signoff.domain.errors import (
    AlreadyDecided,
    AmbiguousItem,
    DecisionNotAllowed,
    DuplicateDecision,
    EarlyDecision,
    ReviewCancelled,
    ReviewExpired,
    ReviewSuperseded,
    StaleDecision,
    UnknownItem,
    WrongDecisionCount,
)
from signoff.domain.policy import DecisionType
from signoff.domain.registered import Registered
from signoff.domain.reviews import Decision, Item, ItemStatus, Review, ReviewStatus, Settled

CLOSED = {
    ReviewStatus.expired: ReviewExpired,
    ReviewStatus.cancelled: ReviewCancelled,
    ReviewStatus.superseded: ReviewSuperseded,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """What a request comes to: decisions to store, and those that were stored before and are the same."""

    new: tuple[Settled, ...]
    known: tuple[Decision, ...]


def judge_answers(
    review: Review,
    answers: Sequence[Answer],
    who: Principal,
    *,
    now: datetime,
    registered: Registered,
    lineage_root: str,
    new_id: Callable[[], UUID],
) -> Judged:
    """Decides whether these answers may be stored, all or none.

    Raises: the named error of the first answer that may not; see `signoff.domain.errors`. Who may decide none of the
    items learns nothing else about them.
    """
    if not (is_reviewer(who) and _has_decided(review, who)):
        require_reviewer(who, review.reviewers)
    judge = _Judge(review, who, now, registered, lineage_root, new_id)
    new: list[Settled] = []
    known: list[Decision] = []
    for item, answer in _match(review, answers):
        judged = judge.judge(item, answer)
        if isinstance(judged, Decision):
            known.append(judged)
        else:
            new.append(judged)
    return Judged(tuple(new), tuple(known))


def _has_decided(review: Review, who: Principal) -> bool:
    """An edit may have taken the item on to others; its editor still gets the stored answer."""
    return any(decision.reviewer == who.name for item in review.items for decision in item.decisions)


class _Judge:
    def __init__(
        self,
        review: Review,
        who: Principal,
        now: datetime,
        registered: Registered,
        lineage_root: str,
        new_id: Callable[[], UUID],
    ) -> None:
        self._review = review
        self._who = who
        self._now = now
        self._registered = registered
        self._lineage_root = lineage_root
        self._new_id = new_id

    def judge(self, item: Item, answer: Answer) -> Settled | Decision:
        """The decision to store, or the same one as it was stored before."""
        amendment = self._amendment(item, answer)
        if known := self._stored_before(item, answer, amendment):
            return known
        self._require_open(item, answer)
        require_unclaimed(self._review, self._who, self._now)
        authority = authority_on(item, self._who, self._registered, self._now)
        if answer.type not in item.allowed_decisions:
            words = ", ".join(item.allowed_decisions)
            raise DecisionNotAllowed(
                f"'{answer.type}' is not open for {item.tool}; allowed: {words}", allowed=list(item.allowed_decisions)
            )
        if amendment is not None:
            return self._edit(item, answer, authority, amendment)
        decision = self._decision(item, answer, authority)
        ends = not decision.allows or len(item.voices) + 1 >= item.terms.approvals
        return Settled(item, decision, ends)

    # --- once, in time, on what was seen --------------------------------------------------------------------

    def _stored_before(self, item: Item, answer: Answer, amendment: Amendment | None) -> Decision | None:
        """The same decision of the same person. Raises AlreadyDecided for another one."""
        mine = [one for one in item.decisions if one.reviewer == self._who.name]
        same = next((one for one in mine if _is_same(one, item, answer, amendment)), None)
        if same is not None:
            return same
        winner = item.decision or next((one for one in item.decisions if self._is_in_the_way(one, item)), None)
        if winner is None:
            return None
        raise AlreadyDecided(f"{winner.reviewer} has decided this item already: {winner.type}", winner=winner.brief())

    def _is_in_the_way(self, decision: Decision, item: Item) -> bool:
        """One's own voice can't be taken back: not in this revision, nor in one that one's own edit has made."""
        is_mine = self._who.name in decision.authority.people
        return is_mine and (decision.revision == item.revision or decision in item.voices)

    def _require_open(self, item: Item, answer: Answer) -> None:
        late = item.status is ItemStatus.open and item.is_late(self._now)
        if item.status is ItemStatus.expired or late:
            raise ReviewExpired(f"the deadline of {item.tool} has passed", deadline_at=str(item.deadline_at))
        status = self._review.status
        if closed := CLOSED.get(status):
            raise closed(f"the review is {status}; nothing can be decided any more", status=str(status))
        if item.status is not ItemStatus.open:
            raise ReviewCancelled(f"the item is {item.status}; it can't be decided any more", status=str(item.status))
        _require_current(item, answer)

    # --- the decision -----------------------------------------------------------------------------------------

    def _decision(self, item: Item, answer: Answer, authority: Authority) -> Decision:
        return Decision(
            id=self._new_id(),
            item_id=item.id,
            type=answer.type,
            reviewer=self._who.name,
            operation_id=item.operation_id,
            digest=item.digest,
            args=item.args,
            message=answer.message,
            next_step=_next_step(answer),
            decided_at=self._now,
            tool=item.tool,
            edits=item.edits,
            revision=item.revision,
            on_behalf_of=authority.on_behalf_of,
        )

    def _amendment(self, item: Item, answer: Answer) -> Amendment | None:
        if answer.type is not DecisionType.edit:
            return None
        return amend(item, answer, self._registered)

    def _edit(self, item: Item, answer: Answer, authority: Authority, amendment: Amendment) -> Settled:
        """What the editor may allow alone ends the item; what needs somebody else goes on to them, amended."""
        amendment.check()
        edits = item.edits + 1
        operation = operation_id(self._lineage_root, item.message_id, item.call_ordinal, edits)
        own = amendment.authority_of(self._who, self._now)
        decision = amendment.decided(self._decision(item, answer, authority), operation, edits, own)
        ends = decision.counts and amendment.approvals == 1
        if ends and not amendment.hides_more:
            return Settled(item, decision, ends=True)
        revision = amendment.revision(operation, edits, proposed_by=self._who.name)
        return Settled(item, decision, ends, revision)


def _is_same(stored: Decision, item: Item, answer: Answer, amendment: Amendment | None) -> bool:
    said = (answer.type, answer.message, _next_step(answer))
    if said != (stored.type, stored.message, stored.next_step):
        return False
    if answer.revision not in (None, stored.revision):
        return False
    if amendment is not None:
        return stored.digest == amendment.digest
    # An approval given before an amendment is no approval of what the call has become.
    return stored.revision == item.revision or answer.revision == stored.revision


def _require_current(item: Item, answer: Answer) -> None:
    """Raises EarlyDecision, StaleDecision: the reviewer has seen another call than the one that waits now."""
    if answer.revision is not None and answer.revision > item.revision:
        raise EarlyDecision(f"the item has no revision {answer.revision} yet", revision=item.revision)
    named = answer.revision is not None or answer.digest is not None
    current = answer.revision in (None, item.revision) and answer.digest in (None, item.digest)
    if current and (named or item.revision == 1):
        return
    by = item.proposed.amended_by if item.proposed else None
    changed = {"revision": item.revision, "tool": item.tool, "amended_by": by}
    if named:
        message = "the decision is about another call than the one that waits now: look at the review again"
    else:
        message = f"{by} has amended the call: look at it, and decide with 'revision': {item.revision}"
    raise StaleDecision(message, changed=changed)


def _next_step(answer: Answer) -> NextStep | None:
    if answer.type is not DecisionType.reject:
        return None
    return answer.then or (NextStep.revise if answer.message else NextStep.stop)


# --- which answer is for which item ---------------------------------------------------------------------------


def _match(review: Review, answers: Sequence[Answer]) -> list[tuple[Item, Answer]]:
    if answers[0].by_position:
        if len(answers) != len(review.items):
            raise WrongDecisionCount(
                f"the review has {len(review.items)} items and {len(answers)} decisions came;"
                " send one for each in order, or name items by item_id",
                items=len(review.items),
                decisions=len(answers),
            )
        return list(zip(review.items, answers, strict=True))
    pairs = [(_find(review, answer), answer) for answer in answers]
    if len({item.id for item, _ in pairs}) != len(pairs):
        raise DuplicateDecision("one item is decided twice in this request")
    return pairs


def _find(review: Review, answer: Answer) -> Item:
    found = [item for item in review.items if _is_meant(item, answer)]
    if not found:
        named = answer.item_id or answer.tool_call_id
        known = [{"item_id": str(item.id), "tool_call_id": item.tool_call_id} for item in review.items]
        raise UnknownItem(f"the review has no item {named}", items=known)
    if len(found) > 1:
        raise AmbiguousItem(f"{len(found)} items have the tool call id {answer.tool_call_id!r}: use item_id")
    return found[0]


def _is_meant(item: Item, answer: Answer) -> bool:
    by_id = answer.item_id is None or item.id == answer.item_id
    by_call = answer.tool_call_id is None or item.tool_call_id == answer.tool_call_id
    return by_id and by_call
