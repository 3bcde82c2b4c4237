"""Which reviews a list shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from signoff.domain.authority import Principal, is_reviewer, seen_as
from signoff.domain.filters import ANY_AGE, Age
from signoff.domain.reviews import ReviewStatus
from signoff.infra.postgres.views import Query, storable

# An item with the call that it is now.
_ITEMS = """SELECT 1 FROM signoff.items i
    LEFT JOIN signoff.revisions v ON v.item_id = i.id AND v.revision = i.revision WHERE i.review_id = r.id"""

OF_TOOL = f"EXISTS ({_ITEMS} AND coalesce(v.tool, i.tool) = %(tool)s)"

# Some item waits for one of these names, and the person has had no voice in it. What grants say is not looked at.
WAITING = f"""EXISTS ({_ITEMS} AND i.status = 'open' AND (i.deadline_at IS NULL OR i.deadline_at > clock_timestamp())
    AND coalesce(i.escalated_to, '{{}}')
        || CASE WHEN i.replaced THEN '{{}}' ELSE coalesce(v.reviewers, i.reviewers) END && %(names)s::text[]
    AND (i.assigned_to IS NULL OR i.assigned_to && %(names)s::text[])
    AND NOT EXISTS (SELECT 1 FROM signoff.decisions d WHERE d.item_id = i.id AND %(me)s IN (d.reviewer, d.on_behalf_of)
        AND (d.revision = i.revision OR d.counts AND d.operation_id = coalesce(v.operation_id, i.operation_id))))"""
UNCLAIMED = "(r.claimed_by IS NULL OR r.claimed_by = %(me)s OR r.claimed_until <= clock_timestamp())"


@dataclass(frozen=True, slots=True)
class ReviewFilter:
    """None and nothing stand for any. `reviewer` is a group, or a person as `@name`, who was ever asked.

    `mine` are those that wait for the caller: by groups, delegations and assignments, not claimed by somebody else.
    """

    status: Sequence[ReviewStatus] = ()
    reviewer: str | None = None
    tool: str | None = None
    agent: str | None = None
    job_id: UUID | None = None
    mine: bool = False
    age: Age = ANY_AGE
    labels: Mapping[str, str] = field(default_factory=dict)

    def apply(self, query: Query, who: Principal) -> None:
        """Raises InvalidRequest."""
        query.add_words("r.status", self.status)
        query.add_equal(j__agent=self.agent, r__job_id=self.job_id)
        query.add_age("r.created_at", self.age)
        query.add_labels("j.labels", self.labels)
        if self.reviewer is not None:
            query.add("r.reviewers @> ARRAY[%(reviewer)s::text]", reviewer=storable("reviewer", self.reviewer))
        if self.tool is not None:
            query.add(OF_TOOL, tool=storable("tool", self.tool))
        if self.mine:
            query.add_words("r.status", [ReviewStatus.pending])
            _add_mine(query, who)


def _add_mine(query: Query, who: Principal) -> None:
    names = seen_as(who) if is_reviewer(who) else []
    query.add(f"j.submitted_by <> %(me)s AND {UNCLAIMED} AND {WAITING}", me=who.name, names=names)
