"""Whatever JSON comes, a dialect reads decisions or refuses by name; it never breaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.canonical import canonical_json
from signoff.domain.decisions import Answer
from signoff.domain.dialects import DIALECTS, Dialect
from signoff.domain.errors import SignoffError
from signoff.domain.policy import DecisionType
from tests.support.dialects import REVIEW_ID, an_item, one_item, two_items

KEYS = [
    *("decisions", "type", "edited_action", "editedAction", "name", "args", "arguments", "message", "then"),
    *("item_id", "itemId", "tool_call_id", "toolCallId", "action", "resume", "interruptId", "status", "payload"),
    *("approved", "editedArgs", "response", "metadata", "call_id", "approve", "reason"),
    *("order", "amount", "rate", "urgent", "tags", "customer"),
]
WORDS = [
    *("approve", "edit", "reject", "respond", "accept", "ignore", "response", "resolved", "cancelled"),
    *("refund", "call-1", "call-2", "null", "", "30", "1e999", "[", '{"id": 1}', "\ud800", "\0"),
    *(str(REVIEW_ID), str(an_item(1).id)),
]

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.just(2**70)
    | st.just(10**400)
    | st.text(max_size=5)
    | st.sampled_from(WORDS)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=15,
)
entries = st.dictionaries(st.sampled_from(KEYS), values, max_size=4) | st.fixed_dictionaries(
    {"type": st.sampled_from(WORDS)}, optional={"args": values, "message": values, "tool_call_id": values}
)
requests = st.fixed_dictionaries({"action": st.just("refund"), "args": st.dictionaries(st.sampled_from(KEYS), values)})
responses = st.fixed_dictionaries({"type": st.sampled_from(WORDS), "args": requests | values})
bodies = (
    values
    | st.lists(responses, min_size=1, max_size=1)
    | st.fixed_dictionaries({"decisions": st.lists(entries, max_size=3)})
    | st.fixed_dictionaries({"resume": st.lists(entries, max_size=3)})
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@given(body=bodies)
def test_any_json_is_read_or_refused_by_name(dialect: Dialect, body: Any) -> None:
    for review in (one_item(), one_item(args_schema=None), two_items()):
        try:
            answers = dialect.read(body, review)
        except SignoffError:
            continue
        assert answers
        for answer in answers:
            _can_be_stored(answer)


def _can_be_stored(answer: Answer) -> None:
    canonical_json([answer.message, answer.tool_call_id, answer.edited_args])
    assert (answer.edited_args is not None) == (answer.type is DecisionType.edit)
    assert answer.message or answer.type is not DecisionType.respond
