"""`--watch`: the same screen again and again, until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import json
import select
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from signoff.domain.authority import Principal
from signoff.domain.errors import Unavailable
from signoff.infra.cli.acting import act
from signoff.infra.cli.output import note, print_json, stdout_console
from signoff.infra.services import Services

WatchFlag = Annotated[
    bool, typer.Option("--watch", help="Look again every 2 s until Ctrl-C; with --json a line for each change")
]

SECONDS = 2.0

View = Mapping[str, Any]
Fetch = Callable[[Services, Principal], Awaitable[dict[str, Any]]]
Show = Callable[[View], None]
Parts = Callable[[View], Iterable[View]]


def look(fetch: Fetch, show: Show, parts: Parts, token_file: Path | None, *, json: bool, watch: bool) -> None:
    """Shows what is fetched: once, or again and again.

    `parts` are what changes by itself: `--watch --json` prints each that is new, or other than it was.
    """
    if watch:
        _watch(fetch, _lines(parts) if json else show, token_file, plain=json)
        return
    view = act(fetch, token_file)
    print_json(view) if json else show(view)


def rows(name: str) -> Parts:
    """For a view that is a list: its rows."""
    return lambda view: view[name]


async def pause() -> None:
    await asyncio.sleep(SECONDS)


def require_reader() -> None:
    """Raises BrokenPipeError once nobody reads what is printed: that something changes may take for ever."""
    try:
        out = sys.stdout.fileno()
    except OSError:  # no file, as under a test's runner
        return
    poller = select.poll()
    poller.register(out, 0)
    if poller.poll(0):
        raise BrokenPipeError(errno.EPIPE, "nobody reads any more")


def _watch(fetch: Fetch, show: Show, token_file: Path | None, *, plain: bool) -> None:
    console = stdout_console()
    with ExitStack() as open_until_then:
        if not plain and console.is_terminal:
            live = open_until_then.enter_context(Live(console=console, auto_refresh=False, screen=True))
            show = _redrawing(live, show)

        async def again(services: Services, who: Principal) -> None:
            while True:
                await _once(fetch, show, services, who)
                await pause()
                require_reader()

        try:
            act(again, token_file)
        except KeyboardInterrupt:
            return


async def _once(fetch: Fetch, show: Show, services: Services, who: Principal) -> None:
    """What is away for a moment ends no watch."""
    try:
        view = await fetch(services, who)
    except Unavailable as error:
        note(f"signoff: {error.message} [{error.code}]")
        return
    show(view)
    sys.stdout.flush()


def _redrawing(live: Live, show: Show) -> Show:
    def redraw(view: View) -> None:
        screen = _Screen()
        with redirect_stdout(screen), redirect_stderr(screen):
            show(view)
        live.update(Text.from_ansi(screen.getvalue()), refresh=True)

    return redraw


class _Screen(StringIO):
    """Takes a screen as a terminal would: in its width, with its colours."""

    def isatty(self) -> bool:
        return True


def _lines(parts: Parts) -> Show:
    seen: set[str] = set()

    def show(view: View) -> None:
        nonlocal seen
        now = [json.dumps(part) for part in parts(view)]
        for line in now:
            if line not in seen:
                typer.echo(line)
        seen = set(now)

    return show
