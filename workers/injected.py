"""Arguments that a tool is given beside the model's, and that the model never sees.

LangChain fills in the call's id and the config by itself. State (`InjectedState`) is given by us, from the run's own;
nothing here has a store or a runtime to give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId
from langgraph.prebuilt import InjectedState, ToolRuntime
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from signoff.domain.canonical import has_storable_integers

MOST_ITEMS = 20
MOST_CHARACTERS = 2000
DEEPEST = 8


def state_fields(tool: BaseTool) -> Mapping[str, str | None]:
    """The state's field for each argument that is given from it; None stands for all of the state."""
    return {
        name: marker.field if isinstance(marker, InjectedState) else None
        for name, field in _fields(tool)
        for marker in field.metadata
        if _is(marker, InjectedState)
    }


def ungiven(tool: BaseTool) -> list[str]:
    """The arguments that the tool can't do without, and that nothing here can give."""
    return [name for name, field in _fields(tool) if field.is_required() and _is_ungiven(field)]


def given(fields: Mapping[str, str | None], state: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments to give from the state, where it has them; `fields` as of `state_fields`."""
    found = {name: (dict(state) if field is None else state.get(field)) for name, field in fields.items()}
    return {name: value for name, value in found.items() if value is not None}


def as_shown(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Given arguments as rules and reviewers see them: JSON types alone, cut to a bearable length; None if none."""
    return {name: _plain(value, 0) for name, value in values.items()} or None


def _fields(tool: BaseTool) -> Iterator[tuple[str, FieldInfo]]:
    schema = tool.get_input_schema()
    if issubclass(schema, BaseModel):
        yield from schema.model_fields.items()


def _is_ungiven(field: FieldInfo) -> bool:
    if isinstance(field.annotation, type) and issubclass(field.annotation, ToolRuntime):
        return True
    injected = [marker for marker in field.metadata if _is(marker, InjectedToolArg)]
    return any(not _is(marker, InjectedState) and not _is(marker, InjectedToolCallId) for marker in injected)


def _is(marker: Any, kind: type) -> bool:
    return isinstance(marker, kind) or (isinstance(marker, type) and issubclass(marker, kind))


def _plain(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        return "(too deep to be shown)"
    if isinstance(value, BaseMessage):
        return {"type": value.type, "text": _cut(value.text)}
    if isinstance(value, Mapping):
        return {str(key): _plain(part, depth + 1) for key, part in list(value.items())[:MOST_ITEMS]}
    if isinstance(value, (list, tuple)):
        return [_plain(part, depth + 1) for part in value[-MOST_ITEMS:]]
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and has_storable_integers(value)):
        return value
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
