"""Arguments against a tool's JSON schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from signoff.domain.errors import EditOutsideSchema
from signoff.domain.hiding import paths_of

_NAMES_ALONE = ("required", "additionalProperties")
"""What these say is of names; all others quote what they have looked at."""


def check_edit(
    tool: str, args: Mapping[str, Any], schema: Mapping[str, Any] | None, *, hidden: Iterable[str] = ()
) -> None:
    """Raises EditOutsideSchema with the first thing that does not fit, and where, but no value that is hidden."""
    error = _first_error(args, schema)
    if error is not None:
        problem = _discreetly(error) if _quotes(error, paths_of(args, hidden)) else _in_words(error)
        raise EditOutsideSchema(f"the edited arguments don't fit {tool}: {problem}")


def first_problem(args: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str | None:
    """What does not fit, in words; None if all does. Names that the schema does not know don't fit."""
    error = _first_error(args, schema)
    return None if error is None else _in_words(error)


def _first_error(args: Mapping[str, Any], schema: Mapping[str, Any] | None) -> ValidationError | None:
    if schema is None:
        return None
    strict = {"additionalProperties": False, **schema}
    errors = sorted(Draft202012Validator(strict).iter_errors(dict(args)), key=lambda error: list(error.path))
    return errors[0] if errors else None


def _in_words(error: ValidationError) -> str:
    where = _place(error)
    return f"{where}: {error.message}" if where else error.message


def _discreetly(error: ValidationError) -> str:
    return f"{_place(error) or 'all of them'}: not what {error.validator!r} asks for"


def _quotes(error: ValidationError, hidden: Iterable[str]) -> bool:
    """Whether the error's message may hold a hidden value: one inside of what it is about, or around it."""
    if error.validator in _NAMES_ALONE:
        return False
    about = f"{_place(error)}." if error.absolute_path else ""
    return any(f"{place}.".startswith(about) or about.startswith(f"{place}.") for place in hidden)


def _place(error: ValidationError) -> str:
    return ".".join(str(step) for step in error.absolute_path)
