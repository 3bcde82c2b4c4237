"""Plans of replays for people to read, and how far one has got."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress as Bar

from signoff.domain.replay_plans import Entry, ReplayPlan
from signoff.domain.replaying import Applied
from signoff.infra.cli.output import print_line, print_table


def print_plan(plan: ReplayPlan) -> None:
    """Each entry with what would be done of it and why; below a job each of its effects."""
    print_table(("what", "id", "tool", "would", "because"), [row for entry in plan.entries for row in _rows(entry)])
    counts = Counter(str(entry.would).replace("_", " ") for entry in plan.entries)
    words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    print_line(f"\nPlan {plan.id}: {words or 'nothing'}")


def print_results(results: Sequence[Applied]) -> None:
    columns = ("what", "id", "did", "status", "because")
    print_table(columns, [(one.kind, one.id, one.did, one.status, _why(one)) for one in results])
    counts = Counter(str(result.did) for result in results)
    print_line("\n" + (", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "nothing to do"))


class Progress:
    """A bar on stderr, if that is a terminal."""

    def __init__(self, total: int) -> None:
        console = Console(file=sys.stderr)
        self._bar = Bar(console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("replaying", total=total)

    def advance(self, result: Applied) -> None:
        self._bar.advance(self._task)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def _rows(entry: Entry) -> list[tuple[object, ...]]:
    own = (entry.kind, entry.id, entry.tool, str(entry.would).replace("_", " "), entry.reason)
    below = [
        ("  effect", effect["operation_id"], effect["tool"], effect["would"].replace("_", " "), effect["reason"])
        for effect in entry.effects
    ]
    return [own, *below]


def _why(result: Applied) -> str | None:
    return None if result.code is None else f"{result.message} [{result.code}]"
