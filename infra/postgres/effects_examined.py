"""One look at an effect with all that it stands on: what the executor judges by, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from signoff.domain.authority import Authority, Principal
from signoff.domain.effects import Effect, EffectClass, EffectStatus
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import ItemStatus
from signoff.domain.verdicts import DecisionType
from signoff.infra.postgres.principals import principal_of

COLUMNS = """e.operation_id, e.generation, e.job_id, e.thread_id, e.tool,
    coalesce(e.args, '{}'::json) AS args, e.digest, e.status, e.attempts, e.fence, e.first_dispatched_at,
    e.last_dispatched_at, e.doubt_since, e.retry_at,
    e.result_type, e.result, e.error_code, e.error_message, e.provider_reference, e.holds, e.purged_at"""

# The effect's row stays locked. The votes are all decisions that allowed some form of the item that the effect stands
# on, each with who made it, as they are now; above revision 1 the item's call is its revision's.
EXAMINE = f"""
SELECT clock_timestamp() AS now, e.alone, e.lease_until, e.awaits_operator, e.probe_at, e.changed,
    e.changed_decision, e.class AS effect_class, {COLUMNS}, e.decision_id,
    EXISTS (SELECT FROM signoff.items o JOIN signoff.reviews q ON q.id = o.review_id
        WHERE o.operation_id = e.operation_id AND o.status = 'open' AND q.job_id = e.job_id) AS asked,
    EXISTS (SELECT FROM signoff.standing_approvals s
        WHERE s.agent = e.agent AND s.tool = e.tool AND s.revoked_at IS NULL) AS stands,
    CASE WHEN v.item_id IS NULL THEN i.operation_id ELSE v.operation_id END AS item_operation,
    CASE WHEN v.item_id IS NULL THEN i.reviewers ELSE v.reviewers END AS item_reviewers,
    CASE WHEN v.item_id IS NULL THEN i.terms ELSE v.terms END AS item_terms,
    CASE WHEN v.item_id IS NULL THEN i.approval_valid_for_seconds ELSE v.approval_valid_for_seconds END AS valid_for,
    i.escalated_to, i.replaced,
    (SELECT json_agg(json_build_object('id', o.id, 'type', o.type, 'operation_id', o.operation_id, 'digest', o.digest,
            'reviewer', o.reviewer, 'on_behalf_of', o.on_behalf_of, 'decided_at', o.decided_at,
            'who', signoff.principal(o.reviewer)) ORDER BY o.decided_at, o.id)
        FROM signoff.decisions o WHERE o.item_id = i.id AND o.counts AND o.type IN ('approve', 'edit')) AS votes
FROM signoff.effects e
LEFT JOIN signoff.decisions d ON d.id = e.decision_id
LEFT JOIN signoff.items i ON i.id = d.item_id
LEFT JOIN signoff.revisions v ON i.revision > 1 AND v.item_id = i.id AND v.revision = i.revision
WHERE e.operation_id = %s FOR UPDATE OF e
"""

NEWEST_ITEM = """
SELECT i.status, i.revision, i.terms, d.type, d.reviewer, d.message, d.next_step
FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id
LEFT JOIN signoff.decisions d ON d.id = i.decision_id
WHERE i.operation_id = %s ORDER BY r.created_at DESC, r.id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Vote:
    """One decision that allows a call, and who made it, as they are now."""

    decision_id: UUID
    type: DecisionType
    operation_id: str
    digest: str
    authority: Authority
    decided_at: datetime
    who: Principal


@dataclass(frozen=True, slots=True)
class Approval:
    """What the review that an effect stands on came to: who allowed it, and what was asked of them.

    `approvals` is how many different people it needed; `reviewers` are those who could decide, as the ladder left them.
    """

    votes: tuple[Vote, ...]
    approvals: int
    reviewers: tuple[str, ...]
    valid_for_seconds: float | None


@dataclass(frozen=True, slots=True)
class Examined:
    """An effect under lock; `approval` is None if it stands on no decision.

    `lease_until` is there while it is sent by itself, beside the runs of its job. `asked`: a review about it is open.
    `stands`: there are standing approvals for its tool. `awaits_operator`: it is in doubt, and no way out was found.
    `probe_at`: from when on its provider is to be asked about it, whatever runs there are. `changed`: what had changed
    when it last went back to review, and stood on `changed_decision`. `effect_class` is what its tool was when it was
    last sent.
    """

    effect: Effect
    approval: Approval | None
    now: datetime
    alone: bool
    lease_until: datetime | None
    asked: bool = False
    stands: bool = True
    awaits_operator: bool = False
    probe_at: datetime | None = None
    decision_id: UUID | None = None
    changed: str | None = None
    changed_decision: UUID | None = None
    effect_class: EffectClass | None = None

    def is_known_change(self, message: str) -> bool:
        """True if exactly this had changed when it last went back to review, and it was decided about since."""
        decided = self.decision_id is not None and self.decision_id != self.changed_decision
        return self.changed == message and decided


@dataclass(frozen=True, slots=True)
class AskedBefore:
    """The newest item that a call was, and what became of it."""

    status: ItemStatus
    revision: int
    terms: ReviewTerms
    type: DecisionType | None
    reviewer: str | None
    message: str | None
    next_step: str | None


AS_THEY_ARE = (
    "now",
    "alone",
    "lease_until",
    "asked",
    "stands",
    "awaits_operator",
    "probe_at",
    "decision_id",
    "changed",
    "changed_decision",
)


def effect_of(row: DictRow) -> Effect:
    names = Effect.__dataclass_fields__
    return Effect(**{**{name: row[name] for name in names}, "status": EffectStatus(row["status"])})


def examined_of(row: DictRow) -> Examined:
    approval = _approval_of(row) if row["decision_id"] else None
    found = {name: row[name] for name in AS_THEY_ARE}
    then = None if row["effect_class"] is None else EffectClass(row["effect_class"])
    return Examined(effect=effect_of(row), approval=approval, effect_class=then, **found)


def asked_before_of(row: DictRow) -> AskedBefore:
    return AskedBefore(
        status=ItemStatus(row["status"]),
        revision=row["revision"],
        terms=ReviewTerms.from_dict(row["terms"]),
        type=None if row["type"] is None else DecisionType(row["type"]),
        reviewer=row["reviewer"],
        message=row["message"],
        next_step=row["next_step"],
    )


def _approval_of(row: DictRow) -> Approval:
    own = () if row["replaced"] else row["item_reviewers"]
    # An edit that its editor could allow alone made a call that the item's terms say nothing of.
    as_asked = row["item_operation"] == row["operation_id"]
    return Approval(
        votes=tuple(_vote_of(found) for found in row["votes"] or ()),
        approvals=ReviewTerms.from_dict(row["item_terms"]).approvals if as_asked else 1,
        reviewers=tuple(dict.fromkeys((*own, *(row["escalated_to"] or ())))),
        valid_for_seconds=row["valid_for"],
    )


def _vote_of(found: Mapping[str, Any]) -> Vote:
    return Vote(
        decision_id=UUID(found["id"]),
        type=DecisionType(found["type"]),
        operation_id=found["operation_id"],
        digest=found["digest"],
        authority=Authority(found["reviewer"], found["on_behalf_of"]),
        decided_at=datetime.fromisoformat(found["decided_at"]),
        who=principal_of(found["who"]),
    )
