"""Arguments against a tool's JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from signoff.domain.errors import EditOutsideSchema


def check_edit(tool: str, args: Mapping[str, Any], schema: Mapping[str, Any] | None) -> None:
    """Raises EditOutsideSchema with the first thing that does not fit, and where."""
    problem = first_problem(args, schema)
    if problem:
        raise EditOutsideSchema(f"the edited arguments don't fit {tool}: {problem}")


def first_problem(args: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str | None:
    """What does not fit, in words; None if all does. Names that the schema does not know don't fit."""
    if schema is None:
        return None
    strict = {"additionalProperties": False, **schema}
    errors = sorted(Draft202012Validator(strict).iter_errors(dict(args)), key=lambda error: list(error.path))
    if not errors:
        return None
    where = ".".join(str(step) for step in errors[0].absolute_path)
    return f"{where}: {errors[0].message}" if where else errors[0].message
