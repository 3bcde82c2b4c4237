"""Who decides: a plan, or the person at the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.prompt import Prompt

from examples.support_desk.demo_script import DemoJob

MESSAGES = {"reject": "Why not", "respond": "What does the customer say"}


class Decider(Protocol):
    def decide(self, job: DemoJob, review: Mapping[str, Any]) -> list[dict[str, Any]]:
        """One decision for each item, in LangChain's form."""

    def was_refused(self, why: str) -> None:
        """Signoff refused the decisions; they are asked for again."""


class Plan:
    """Decides as the script says; what it does not foresee is rejected."""

    def decide(self, job: DemoJob, review: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [decision(item, _planned(job, item)) for item in review["items"]]

    def was_refused(self, why: str) -> None:
        raise AssertionError(f"Signoff refused the plan: {why}")


class Terminal:
    """Asks for each decision, with what the script proposes as the default."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def decide(self, job: DemoJob, review: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [self._decide(item, _planned(job, item)) for item in review["items"]]

    def was_refused(self, why: str) -> None:
        self._console.print(f"[red]Refused:[/red] {escape(why)}. Nothing was changed; decide again.")

    def _decide(self, item: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
        words = item["allowed_decisions"]
        text = "\n".join(f"{name}: [bold]{escape(str(value))}[/bold]" for name, value in (item["args"] or {}).items())
        title = f"{item['tool']}: {item['description']}"
        self._console.print(Panel(text or escape(str(item["unreadable_args"])), title=escape(title), expand=False))
        default = planned["type"] if planned["type"] in words else words[-1]
        word = Prompt.ask("Your decision, rita", choices=words, default=default, console=self._console)
        proposed = planned if word == planned["type"] else {}
        if word == "edit":
            return decision(item, {"type": "edit", "args": self._edit(item["args"] or {}, proposed.get("args", {}))})
        if word in MESSAGES:
            default = str(proposed.get("message", "No."))
            message = Prompt.ask(MESSAGES[word], default=default, console=self._console)
            return decision(item, {**proposed, "type": word, "message": message})
        return decision(item, {"type": word})

    def _edit(self, args: Mapping[str, Any], proposed: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._edit_one(name, value, proposed.get(name, value)) for name, value in args.items()}

    def _edit_one(self, name: str, value: Any, proposed: Any) -> Any:
        while True:
            text = Prompt.ask(f"  {name}", default=str(proposed), console=self._console)
            if isinstance(value, str):
                return text
            try:
                return json.loads(text)
            except ValueError:
                self._console.print(f"  [red]{escape(text)} is no {type(value).__name__}[/red]")


def decision(item: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What is chosen for an item, as it is sent."""
    if chosen["type"] != "edit":
        return {**chosen, "item_id": item["item_id"]}
    args = {**(item["args"] or {}), **chosen["args"]}
    return {"type": "edit", "item_id": item["item_id"], "edited_action": {"name": item["tool"], "args": args}}


def _planned(job: DemoJob, item: Mapping[str, Any]) -> Mapping[str, Any]:
    unforeseen = {"type": "reject", "message": "Nobody foresaw this call.", "then": "stop"}
    return job.decisions.get(item["tool"], unforeseen)
