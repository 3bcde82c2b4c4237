"""From the options of `signoff reviews decide` to decisions in the wire form, which every door reads alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import typer

from signoff.domain.decisions import NextStep
from signoff.domain.dialects import DEFAULT, Dialect, dialect_named
from signoff.domain.errors import EditIncomplete, InvalidRequest, StaleDecision, UnknownItem
from signoff.infra.json_text import parse_json

Items = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Wish:
    """The options as they were given."""

    approve: bool
    reject: str | None
    respond: str | None
    edit: str | None
    file: Path | None
    then: NextStep | None
    item: str | None
    dialect: str | None = None
    revision: int | None = None

    def check(self) -> None:
        """Raises typer.BadParameter unless exactly one decision is asked for, with what belongs to it."""
        given = [self.approve, *(value is not None for value in (self.reject, self.respond, self.edit, self.file))]
        if sum(given) != 1:
            raise typer.BadParameter("give one of --approve, --reject, --respond, --edit and --file")
        if self.then is not None and self.reject is None:
            raise typer.BadParameter("--then goes with --reject")
        if self.item is not None and self.file is not None:
            raise typer.BadParameter("--file names its items itself: leave out --item")
        if self.revision is not None and self.file is not None:
            raise typer.BadParameter("--file names the revisions itself: leave out --revision")
        if self.dialect is not None and self.file is None:
            raise typer.BadParameter("--dialect goes with --file")
        spoken_by(self)


def spoken_by(wish: Wish) -> Dialect:
    """The dialect that the wire form is in. Raises typer.BadParameter for one that there is not."""
    if wish.dialect is None:
        return DEFAULT
    try:
        return dialect_named(wish.dialect)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message) from None


def wire_form(wish: Wish, items: Items) -> Any:
    """The body of a decision request.

    Raises:
        UnknownItem, EditIncomplete, MalformedJson, InvalidRequest (the file can't be read).
    """
    if wish.file is not None:
        return parse_json(_read(wish.file))
    chosen = _chosen(wish, items)
    if wish.edit is not None and len(chosen) != 1:
        raise typer.BadParameter("an edit is for one item: name it with --item")
    if wish.revision is not None and len(chosen) != 1:
        raise typer.BadParameter("a revision is one item's: name it with --item")
    seen = {} if wish.revision is None else {"revision": wish.revision}
    return {"decisions": [{**_decision(wish, item), "item_id": item["item_id"], **seen} for item in chosen]}


@contextmanager
def stale_in_words(review_id: UUID) -> Iterator[None]:
    """A call that was amended since is decided by nobody who has not seen it: which one it is, and what to do.

    Raises StaleDecision.
    """
    try:
        yield
    except StaleDecision as error:
        now = error.details["changed"]
        raise StaleDecision(
            f"{now['amended_by']} has amended the call of {now['tool']}: look at it (signoff reviews show {review_id}),"
            f" then decide it with --revision {now['revision']}",
            **error.details,
        ) from None


def _chosen(wish: Wish, items: Items) -> Items:
    """The named item, or all that are open; if none is, all of them, so that the answer says what they are."""
    if wish.item is None:
        return [item for item in items if item["status"] == "open"] or items
    found = [item for item in items if wish.item in (item["item_id"], item["tool_call_id"])]
    if len(found) != 1:
        known = ", ".join(f"{item['item_id']} ({item['tool']})" for item in items)
        raise UnknownItem(f"{wish.item!r} names {len(found)} items of the review, which has {known}")
    return found


def _decision(wish: Wish, item: Mapping[str, Any]) -> dict[str, Any]:
    if wish.edit is not None:
        return {"type": "edit", "edited_action": {"name": item["tool"], "args": _arguments(wish.edit)}}
    if wish.respond is not None:
        return {"type": "respond", "message": wish.respond}
    if wish.reject is not None:
        return {"type": "reject", "message": wish.reject, "then": wish.then}
    return {"type": "approve"}


def _arguments(text: str) -> dict[str, Any]:
    value = parse_json(text.encode(errors="surrogateescape"))
    if not isinstance(value, dict):
        raise EditIncomplete("--edit takes a JSON object: the arguments by name, all of them")
    return value


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{file} can't be read: {error.strerror}") from None
