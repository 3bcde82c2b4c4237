"""Edits: a new proposal, judged by the policy again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from signoff.domain.authority import Authority, Principal, authority_over
from signoff.domain.canonical import call_digest
from signoff.domain.decisions import Answer
from signoff.domain.errors import EditChangesTool, EditDenied, Forbidden
from signoff.domain.hiding import unmasked
from signoff.domain.policy import Judgement, Verdict
from signoff.domain.registered import Registered
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import Decision, Item, Revision
from signoff.domain.schemas import check_edit
from signoff.domain.tool_patterns import matches


@dataclass(frozen=True)
class Amendment:
    """The call that an edit makes of an item."""

    item: Item
    tool: str
    args: Mapping[str, Any]
    digest: str
    registered: Registered

    def check(self) -> None:
        """Raises EditOutsideSchema, EditDenied, AgentNotFound."""
        check_edit(self.tool, self.args, self._schema, hidden=self.item.terms.hidden)
        judgement = self.judgement
        if judgement.verdict is Verdict.deny:
            raise EditDenied(f"the policy denies the edited call: {judgement.reason}", rule=judgement.rule)

    @cached_property
    def judgement(self) -> Judgement:
        return self.registered.judge(self.tool, self.args, hidden=self.item.terms.hidden)

    @property
    def approvals(self) -> int:
        """How many different people must allow the amended call."""
        judgement = self.judgement
        needed = judgement.approvals if judgement.verdict is Verdict.review else 1
        # What no rule could look into might be denied: no editor takes a call there alone.
        another = self.item.terms.edits_need_another or judgement.edits_need_another or not judgement.evaluated
        return max(needed, 2) if another else needed

    @property
    def hides_more(self) -> bool:
        """True if the rule of the amended call hides what the item's terms don't."""
        return not set(self.judgement.hidden) <= set(self.item.terms.hidden)

    def authority_of(self, editor: Principal, now: datetime) -> Authority | None:
        """By what right the editor could have allowed the amended call, had the agent asked for it; None if by none."""
        call = self.registered.facts(self.tool, self.args, requested_by=self.item.terms.requested_by)
        try:
            return authority_over(editor, self._reviewers, call, now=now)
        except Forbidden:
            return None

    def decided(self, decision: Decision, operation_id: str, edits: int, authority: Authority | None) -> Decision:
        """The decision to edit, with the call that it allows by this authority; without one it does not count."""
        by = decision.authority if authority is None else authority
        return replace(
            decision,
            tool=self.tool,
            args=self.args,
            digest=self.digest,
            operation_id=operation_id,
            edits=edits,
            counts=authority is not None,
            on_behalf_of=by.on_behalf_of,
        )

    def revision(self, operation_id: str, edits: int, *, proposed_by: str) -> Revision:
        judgement = self.judgement
        return Revision(
            item_id=self.item.id,
            revision=self.item.revision + 1,
            proposed_by=proposed_by,
            operation_id=operation_id,
            edits=edits,
            tool=self.tool,
            args=self.args,
            digest=self.digest,
            description=judgement.description or self.item.description,
            rule=judgement.rule,
            reason=judgement.reason,
            policy_digest=judgement.policy_digest,
            allowed_decisions=judgement.decisions,
            reviewers=self._reviewers,
            args_schema=self._schema,
            terms=self._terms(judgement),
            shown=judgement.shown or None,
            approval_valid_for_seconds=judgement.approval_valid_for_seconds,
        )

    @property
    def _reviewers(self) -> tuple[str, ...]:
        judgement = self.judgement
        return judgement.reviewers if judgement.verdict is Verdict.review else self.item.may_decide

    def _terms(self, judgement: Judgement) -> ReviewTerms:
        # What was hidden stays hidden; the deadline and its ladder move by no edit.
        before = self.item.terms
        return replace(
            ReviewTerms.of(judgement),
            approvals=self.approvals,
            hidden=tuple(dict.fromkeys((*before.hidden, *judgement.hidden))),
            # Or else a second edit, under a milder rule, would need nobody any more.
            edits_need_another=before.edits_need_another or judgement.edits_need_another,
            ladder=before.ladder,
            at_deadline=before.at_deadline,
            requested_by=before.requested_by,
        )

    @property
    def _schema(self) -> Mapping[str, Any] | None:
        return self.item.args_schema if self.tool == self.item.tool else self.registered.schema(self.tool)


def amend(item: Item, answer: Answer, registered: Registered) -> Amendment:
    """The amended call, with the hidden values where the edit left the mask in their place.

    Raises:
        EditChangesTool: it names another tool, which the rule does not allow.
        EditOutsideSchema: a mask where nothing was hidden.
    """
    assert answer.edited_name is not None
    assert answer.edited_args is not None
    tool = answer.edited_name
    if tool != item.tool:
        _require_tool_change(item, tool, registered)
    # Into another tool's call no hidden value is carried: there it could be told, or sent elsewhere.
    original = (item.args or {}) if tool == item.tool else {}
    args = unmasked(answer.edited_args, original, item.terms.hidden)
    return Amendment(item, tool, args, call_digest(tool, args), registered)


def _require_tool_change(item: Item, tool: str, registered: Registered) -> None:
    allowed = any(matches(pattern, tool) for pattern in item.terms.tool_changes)
    if not allowed or not registered.knows(tool):
        raise EditChangesTool(f"the edit names {tool!r}; this item is a call of {item.tool!r}")
