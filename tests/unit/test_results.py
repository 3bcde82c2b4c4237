"""Results: what the agent is told of one that is too large, and of one that is no longer kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage

from signoff.domain.effects import Effect, EffectStatus
from signoff.workers.calls import Call
from signoff.workers.results import SERDE, from_ledger, pack, within_limit
from signoff.workers.shortening import beginning, size

OPERATION = "op_1"
LONG = "ä" * 1000
IMAGE = {"type": "image", "base64": "x" * 2000}
TEXT_BLOCKS = st.fixed_dictionaries({"type": st.just("text"), "text": st.text()})
CALL = cast(Call, {"tool": "search", "tool_call_id": "call_1", "edited": False, "args": {}})


def packed(content: Any, artifact: Any = None) -> tuple[str, bytes]:
    return pack(ToolMessage(content, artifact=artifact, tool_call_id=""))


def short(content: Any, limit: int, artifact: Any = None) -> dict[str, Any]:
    whole = packed(content, artifact)
    told, aside = within_limit(whole, limit, OPERATION)
    assert aside == whole
    found: dict[str, Any] = SERDE.loads_typed(told)
    assert found["artifact"] is None
    assert found["status"] == "success"
    return found


def test_what_fits_is_left_alone() -> None:
    whole = packed("short", {"rows": 3})
    assert within_limit(whole, len(whole[1]), OPERATION) == (whole, None)
    assert within_limit(whole, len(whole[1]) - 1, OPERATION)[1] == whole


def test_text_is_cut_between_two_characters_and_says_where_the_rest_is() -> None:
    content = short(LONG, 101)["content"]
    assert content.startswith("ä" * 50 + "\n[")
    assert "This is the beginning" in content
    assert "`signoff effects result op_1`" in content
    assert len(content) < 350


def test_a_small_answer_with_a_large_artifact_stays_whole() -> None:
    content = short("12 rows", 200, artifact={"rows": "x" * 1000})["content"]
    assert content.startswith("12 rows\n[This result is too long")
    assert "beginning" not in content


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ([LONG, "after"], [{"type": "text", "text": "ä" * 100}]),
        ([{"type": "text", "text": LONG}, IMAGE], [{"type": "text", "text": "ä" * 100}]),
        ([IMAGE, "after"], [{"type": "text", "text": f"[image of {size(IMAGE)} bytes, left out]"}, "after"]),
        (["a", IMAGE], ["a", {"type": "text", "text": f"[image of {size(IMAGE)} bytes, left out]"}]),
        (["a" * 195, IMAGE, "b"], ["a" * 195]),
    ],
)
def test_blocks_are_kept_named_or_cut(blocks: list[Any], kept: list[Any]) -> None:
    *content, note = short(blocks, 200)["content"]
    assert content == kept
    assert "signoff effects result" in note["text"]


@given(st.one_of(st.text(), st.lists(st.one_of(st.text(), TEXT_BLOCKS))))
def test_whatever_there_is_the_beginning_keeps_to_the_limit(content: Any) -> None:
    for limit in (0, 1, 10, 100):
        cut = beginning(content, limit)
        parts = [cut] if isinstance(cut, str) else [part["text"] if isinstance(part, dict) else part for part in cut]
        assert sum(size(part) for part in parts) <= limit
        if isinstance(content, str):
            assert content.startswith(cut if isinstance(cut, str) else "")


# --- no longer kept ----------------------------------------------------------------------------------------


def purged(status: EffectStatus, **fields: Any) -> Effect:
    times = {"first_dispatched_at": datetime(2026, 1, 1, tzinfo=UTC), "purged_at": datetime(2026, 2, 1, tzinfo=UTC)}
    return Effect(OPERATION, 0, uuid4(), "t", "search", {}, "d", status, 1, **{**times, **fields})


def test_the_tombstone_of_a_success_says_that_it_was_carried_out() -> None:
    message = from_ledger(CALL, purged(EffectStatus.succeeded))
    assert (message.content, message.status) == (
        "[This call was carried out; its result is no longer kept.]",
        "success",
    )


def test_the_tombstone_of_a_skipped_call_says_that_it_was_skipped() -> None:
    assert "skipped this call" in str(from_ledger(CALL, purged(EffectStatus.skipped)).content)


def test_the_tombstone_of_a_refusal_says_why() -> None:
    message = from_ledger(CALL, purged(EffectStatus.failed, error_message="no such order"))
    assert "no such order" in str(message.content)
    assert message.status == "error"


def test_a_result_that_is_kept_is_the_result() -> None:
    kind, raw = packed("12 rows", {"rows": 12})
    kept = replace(purged(EffectStatus.succeeded), purged_at=None, result_type=kind, result=raw)
    message = from_ledger(CALL, kept)
    assert (message.content, message.artifact) == ("12 rows", {"rows": 12})
