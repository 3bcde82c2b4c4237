"""An outside provider in this process, with a log of its own: what it says there is what has happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from langchain_core.tools import BaseTool, tool

from signoff.workers import NotApplied, ProbeAnswer, Refused, current_effect, effect


@dataclass
class Provider:
    """Answers its requests in turn, as `behaves` says; then all well.

    "ok": applies it. "lost": applies it, and the answer is lost. "dropped": nothing arrives, and nobody is told so.
    "later": as "dropped", until `arrive` applies it. "refuse", "busy": says that it did nothing. `finds` is what a
    question is answered with, in turn; then the truth.
    """

    behaves: list[str] = field(default_factory=list)
    finds: list[Any] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    retry_after: timedelta | None = None

    def tool(self, effect_class: str = "opaque", **terms: Any) -> BaseTool:
        if effect_class == "queryable":
            terms = {"probe": self.probe, "quiet_period": timedelta(hours=1), **terms}

        @effect(effect_class, **terms)
        @tool
        async def pay(to: str) -> str:
            """Pays."""
            return self.request(to)

        return pay

    def request(self, to: str) -> str:
        current = current_effect()
        self.keys.append(current.idempotency_key)
        how = self.behaves.pop(0) if self.behaves else "ok"
        if how in ("ok", "lost"):
            self.applied.append(to)
            current.refer_to(f"p-{len(self.applied)}")
        if how == "later":
            self.late.append(to)
        if how == "refuse":
            raise Refused("closed")
        if how == "busy":
            raise NotApplied("busy", retry_after=self.retry_after)
        if how != "ok":
            raise TimeoutError("no answer")
        return f"paid {to}"

    def arrive(self) -> None:
        """What was on its way is applied now."""
        self.applied += self.late
        self.late.clear()

    async def probe(self, args: Mapping[str, Any]) -> ProbeAnswer:
        self.asked.append(current_effect().operation_id)
        found = self.finds.pop(0) if self.finds else None
        if isinstance(found, Exception):
            raise found
        if found is None:
            found = "applied" if args["to"] in self.applied else "not_found"
        reference = f"p-{len(self.applied)}" if found == "applied" else None
        return ProbeAnswer(found, reference=reference, result=f"paid {args['to']}" if found == "applied" else None)
