"""`--watch`: redrawn on a terminal, repeated where it is piped, a line for each change as JSON; until Ctrl-C."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from signoff.domain.errors import StoreUnavailable
from signoff.infra.cli import watching
from signoff.infra.cli.output import print_table
from signoff.infra.cli.watching import look, rows

VIEWS: tuple[dict[str, Any], ...] = (
    {"jobs": [{"id": 1, "status": "queued"}], "next": None},
    {"jobs": [{"id": 1, "status": "queued"}], "next": None},
    {"jobs": [{"id": 2, "status": "queued"}, {"id": 1, "status": "running"}], "next": None},
    {"jobs": [{"id": 2, "status": "queued"}], "next": None},
)


def as_one(view: Any) -> tuple[Any]:
    return (view,)


class Feed:
    """Answers one view after the other, and Ctrl-C behind the last."""

    def __init__(self, *views: Any) -> None:
        self._views: Iterator[Any] = iter(views)
        self.left = len(views)

    async def fetch(self, *_: Any) -> dict[str, Any]:
        self.left -= 1
        view = next(self._views)
        if isinstance(view, Exception):
            raise view
        found: dict[str, Any] = view
        return found

    async def pause(self) -> None:
        if not self.left:
            raise KeyboardInterrupt


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def act(work: Callable[..., Awaitable[Any]], _: Path | None) -> Any:
        coroutine = work(None, None)
        try:
            coroutine.send(None)  # type: ignore[attr-defined]
        except StopIteration as end:
            return end.value

    def start(
        feed: Feed, show: Callable[[Any], None] = print, parts: Any = lambda view: (view,), **options: bool
    ) -> None:
        monkeypatch.setattr(watching, "act", act)
        monkeypatch.setattr(watching, "pause", feed.pause)
        look(feed.fetch, show, parts, None, **{"json": False, "watch": True, **options})

    return start


Capture = pytest.CaptureFixture[str]


def test_as_json_each_row_comes_when_it_is_new_or_has_changed(watch: Callable[..., None], capsys: Capture) -> None:
    watch(Feed(*VIEWS), parts=rows("jobs"), json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [VIEWS[0]["jobs"][0], *VIEWS[2]["jobs"]]


def test_as_json_a_whole_comes_when_anything_of_it_has_changed(watch: Callable[..., None], capsys: Capture) -> None:
    watch(Feed({"count": 1}, {"count": 1}, {"count": 2}), json=True)
    assert capsys.readouterr().out.splitlines() == ['{"count": 1}', '{"count": 2}']


def test_piped_it_is_printed_again_and_again(watch: Callable[..., None], capsys: Capture) -> None:
    watch(Feed({"count": 1}, {"count": 1}), lambda view: typer.echo(view["count"]))
    assert capsys.readouterr().out == "1\n1\n"


def test_what_is_away_for_a_moment_ends_no_watch(watch: Callable[..., None], capsys: Capture) -> None:
    watch(Feed({"count": 1}, StoreUnavailable("away"), {"count": 2}), json=True)
    said = capsys.readouterr()
    assert (said.out, said.err) == ('{"count": 1}\n{"count": 2}\n', "signoff: away [store_unavailable]\n")


def test_without_it_the_view_is_shown_once(watch: Callable[..., None], capsys: Capture) -> None:
    watch(Feed({"count": 1}), watch=False, json=True)
    assert json.loads(capsys.readouterr().out) == {"count": 1}


def test_on_a_terminal_it_is_drawn_over_what_was_there(
    watch: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=60, height=20)
    monkeypatch.setattr(watching, "stdout_console", lambda: terminal)

    def show(view: Any) -> None:
        print_table(("id",), [(row["id"],) for row in view["jobs"]])
        typer.echo("there is more", err=True)

    watch(Feed(*VIEWS), show)
    drawn = screen.getvalue()
    assert drawn.count("\x1b[H") >= len(VIEWS)
    assert "there is more" in drawn
    assert capsys.readouterr() == ("", "")
