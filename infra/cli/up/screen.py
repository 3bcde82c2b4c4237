"""What `signoff up` says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import typer

from signoff.infra.cli.output import safe
from signoff.infra.cli.up.state import StateFolder


def say(text: str) -> None:
    """Nobody may be listening any more: a terminal that was closed is no reason to leave anything behind."""
    with contextlib.suppress(OSError):
        typer.echo(safe(text))


def say_where(name: str, where: str) -> None:
    say(f"  {name:<11}{where}")


class Follower:
    """Repeats on the terminal what is written into the logs, each line under the name of its process."""

    def __init__(self, state: StateFolder, names: Sequence[str]) -> None:
        self._logs = {name: state.log(name) for name in names}
        self._places = dict.fromkeys(names, 0)

    def repeat(self) -> None:
        """Whole lines only; the rest when its end has come."""
        for name, path in self._logs.items():
            if path.exists():
                self._repeat(name, path)

    def _repeat(self, name: str, path: os.PathLike[str]) -> None:
        with open(path, "rb") as log:
            log.seek(self._places[name])
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._places[name] += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            say(f"{name:<11}{line}")
