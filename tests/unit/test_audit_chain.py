"""The chain of the audit: whatever is done to an export shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.audit_chain import NO_HASH, Finding, Head, Row, Verifier, Wrong, hash_of, next_seal, read_head
from signoff.domain.audit_export import read_body, read_lines, write_lines

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
BODIES = st.dictionaries(TEXTS, TEXTS | st.integers() | st.none() | st.lists(TEXTS, max_size=2), max_size=3)
DIGESTS = st.none() | st.just("ab" * 32)
Lines = list[str]


def row(position: int, actor: str = "rita", job: str | None = None, **more: Any) -> Row:
    fields = {
        "at": "2026-01-02T03:04:05.000006Z",
        "act": "item.decided",
        "digest": None,
        "shown": None,
        "body": {"item": position},
    }
    return Row(position=position, actor=actor, job=job, **{**fields, **more})


def exported(*sizes: int, rows: Callable[[int], Row] = row) -> tuple[Lines, Head]:
    """A chain of as many rows a seal, and its head."""
    head, lines, position = None, Lines(), 0
    for size in sizes:
        sealed = [rows(position + place) for place in range(1, size + 1)]
        seal = next_seal(head, "2026-01-02T03:04:06.000000Z", sealed)
        lines += write_lines(seal, sealed)
        head, position = Head(seal.number, seal.hash), position + size
    assert head is not None
    return lines, head


def findings(lines: Sequence[str], head: Head | None = None) -> list[Finding]:
    verifier, found = Verifier(head), list[Finding]()
    for read in read_lines(lines):
        found += [read] if isinstance(read, Finding) else verifier.add(*read)
    return [*found, *verifier.end()]


def wrongs(lines: Sequence[str], head: Head | None = None) -> list[tuple[Wrong, int | None, int | None]]:
    return [(found.wrong, found.seal, found.position) for found in findings(lines, head)]


@st.composite
def chains(draw: st.DrawFn) -> tuple[Lines, Head]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))

    def some(position: int) -> Row:
        return row(
            position, draw(TEXTS), draw(st.none() | TEXTS), digest=draw(DIGESTS), shown=draw(DIGESTS), body=draw(BODIES)
        )

    return exported(*sizes, rows=some)


@given(chains())
def test_what_was_written_is_found_right(chain: tuple[Lines, Head]) -> None:
    lines, head = chain
    assert findings(lines, head) == []


@given(chains(), st.data())
def test_every_change_of_lines_is_found(chain: tuple[Lines, Head], data: st.DataObject) -> None:
    lines, head = chain
    changed = data.draw(st.sampled_from([_removed, _doubled, _swapped, _edited]))(list(lines), data)
    if [json.loads(line) for line in changed] != [json.loads(line) for line in lines]:
        assert findings(changed, head)


def _place(lines: Lines, data: st.DataObject) -> int:
    return data.draw(st.integers(0, len(lines) - 1))


def _removed(lines: Lines, data: st.DataObject) -> Lines:
    del lines[_place(lines, data)]
    return lines


def _doubled(lines: Lines, data: st.DataObject) -> Lines:
    lines.insert(_place(lines, data), lines[_place(lines, data)])
    return lines


def _swapped(lines: Lines, data: st.DataObject) -> Lines:
    one, other = _place(lines, data), _place(lines, data)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def _edited(lines: Lines, data: st.DataObject) -> Lines:
    place = _place(lines, data)
    document = json.loads(lines[place])
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = data.draw(TEXTS | st.integers() | st.none() | st.lists(st.integers(), max_size=3) | BODIES)
    lines[place] = json.dumps(document)
    return lines


def test_each_change_is_named_with_its_place() -> None:
    lines, head = exported(2, 3, 1)  # seals at 0, 3 and 7
    edited = lines[4].replace('"rita"', '"mallory"')
    assert wrongs([*lines[:4], edited, *lines[5:]]) == [(Wrong.row_edited, 2, 3)]
    assert wrongs(lines[:5] + lines[6:]) == [(Wrong.row_removed, 2, 4)]
    assert wrongs([*lines[:5], lines[6], lines[5], lines[7], lines[8]]) == [(Wrong.row_moved, 2, 4)]
    assert wrongs([*lines, lines[4]]) == [(Wrong.row_inserted, 3, 3)]
    assert wrongs([*lines[:5], lines[4], *lines[5:]]) == [(Wrong.row_inserted, 2, 3)]
    hash_ = json.loads(lines[4])["hash"]
    assert wrongs([*lines[:4], lines[4].replace(hash_, NO_HASH), *lines[5:]]) == [(Wrong.row_edited, 2, 3)]
    assert wrongs([lines[1], *lines])[0] == (Wrong.row_inserted, None, 1)
    assert wrongs(lines[:3] + lines[7:]) == [(Wrong.seal_removed, 3, None)]
    assert wrongs([*lines[:7], lines[3], *lines[4:7]]) == [(Wrong.seal_misplaced, 2, None)]
    assert wrongs(lines[:7], head) == [(Wrong.head_missing, 3, None)]
    assert wrongs([*lines[:3], "{}", *lines[3:]]) == [(Wrong.unreadable, None, None)]


def test_a_seal_that_was_computed_anew_is_not_the_one_that_the_next_follows() -> None:
    (first, _), (lines, _) = exported(1), exported(1, 1, 1)
    for place, wrong in ((0, (Wrong.seal_changed, 2, None)), (2, (Wrong.seal_changed, 3, None))):
        document = json.loads(lines[place])
        document |= {"at": "2026-01-02T03:04:07.000000Z"}
        del document["hash"]
        anew = json.dumps({**document, "hash": hash_of(document)})
        assert wrongs([*lines[:place], anew, *lines[place + 1 :]]) == [wrong]
    document = {key: value for key, value in json.loads(first[0]).items() if key != "hash"} | {"previous": "0f" * 32}
    assert wrongs([json.dumps({**document, "hash": hash_of(document)}), first[1]]) == [(Wrong.seal_changed, 1, None)]


def test_a_chain_computed_anew_is_found_by_the_head_that_was_kept() -> None:
    _, head = exported(2, 3)
    forged, other = exported(2, 3, rows=lambda position: row(position, "mallory"))
    assert wrongs(forged) == []
    assert wrongs(forged, head) == [(Wrong.head_differs, 2, None)]
    assert wrongs(forged, other) == []


def test_a_part_of_an_export_follows_the_head_that_it_was_cut_at() -> None:
    lines, head = exported(1, 1, 1)
    _, first = exported(1)
    assert wrongs(lines[2:], first) == []
    assert wrongs(lines[2:], Head(1, NO_HASH)) == [(Wrong.head_differs, 1, None)]
    assert wrongs(lines[4:], first) == [(Wrong.head_missing, 1, None)]
    assert wrongs([], head) == [(Wrong.head_missing, 3, None)]


@pytest.mark.parametrize(
    "line",
    ["", "nonsense", "[]", '{"position": 1}', '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 100_000, '{"seal": true}'],
)
def test_lines_that_no_export_holds(line: str) -> None:
    assert wrongs([line]) == [(Wrong.unreadable, None, None)]


def test_text_that_cannot_be_hashed_is_an_edit() -> None:
    lines, _ = exported(1)
    assert wrongs([lines[0], lines[1].replace("rita", "\\u0000")]) == [(Wrong.row_edited, 1, 1)]
    assert wrongs([lines[0].replace("03:04:06", "\udc80"), lines[1]]) == [(Wrong.seal_changed, 1, None)]


def test_a_body_is_one_object_with_each_key_once() -> None:
    assert read_body('{"a" : 1}') == {"a": 1}
    assert [read_body(text) for text in ('{"a":1,"a":1}', "[]", "1", "{", "{}{}")] == [None] * 5


def test_a_head_is_read_as_it_is_printed() -> None:
    head = Head(12, "0f" * 32)
    assert read_head(str(head)) == head
    for text in ("", "12", "0:" + "0f" * 32, "12:" + "0F" * 32, f"{head} ", "12:0f"):
        with pytest.raises(ValueError):  # noqa: PT011
            read_head(text)


def test_the_hashes_are_as_the_documentation_says() -> None:
    lines, head = exported(2, rows=lambda position: row(position, "réka", digest="ab" * 32))
    for line in lines:
        document = json.loads(line)
        claimed = document.pop("hash")
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(text.encode()).hexdigest() == claimed
    assert json.loads(lines[0])["hash"] == head.hash
