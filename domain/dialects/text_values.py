"""Arguments whose values came back as text, as a form gives them: read by the tool's schema, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from signoff.domain.canonical import canonical_json
from signoff.domain.errors import EditOutsideSchema, UnreadableArguments
from signoff.domain.reviews import Item


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# JSON Schema calls 2.0 an integer; a tool that wants an integer would be handed a float.
_CHECKER = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
_Validator = extend(Draft202012Validator, type_checker=_CHECKER)  # type: ignore[no-untyped-call]  # it has no types
_NOTHING = object()
_KINDS: Mapping[type, Any] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


def read_text_values(where: str, args: Mapping[str, Any], item: Item) -> dict[str, Any]:
    """The arguments with each text that stands for another type read as that type.

    Text that the schema takes as text stays text, but where it is what the unedited value looks like. Without a
    schema the unedited value says what is wanted. Raises EditOutsideSchema for text that fits nothing.
    """
    return {name: _value(f"{where}.{name}", name, value, item) for name, value in args.items()}


def same_in_javascript(one: Any, other: Any) -> bool:
    """True if a program that knows no difference between 1 and 1.0 would take them for the same."""
    try:
        return canonical_json(_plain(one)) == canonical_json(_plain(other))
    except (UnreadableArguments, RecursionError):
        return False


def _value(where: str, name: str, value: Any, item: Item) -> Any:
    if not isinstance(value, str):
        return value
    before = (item.args or {}).get(name, _NOTHING)
    read = _parsed(value)
    if read is not _NOTHING and before is not _NOTHING and same_in_javascript(read, before):
        return before
    fits = _fits(name, before, item.args_schema)
    if fits(value):
        return value
    if read is not _NOTHING and fits(read):
        return read
    raise EditOutsideSchema(f"{where}: {value!r:.100} does not fit what {item.tool} takes there")


def _fits(name: str, before: Any, schema: Mapping[str, Any] | None) -> Callable[[Any], bool]:
    root = dict(schema or {})
    wanted = root.get("properties", {}).get(name, root.get("additionalProperties") or _like(before))
    # `evolve` keeps the root, by which the property's references are found.
    validator = _Validator(root).evolve(schema=wanted)
    return lambda value: bool(validator.is_valid(value))


def _like(before: Any) -> Mapping[str, Any]:
    kind = _KINDS.get(type(before))
    return {} if kind is None else {"type": kind}


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        canonical_json(value)
    except (ValueError, RecursionError, UnreadableArguments):
        return _NOTHING
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
