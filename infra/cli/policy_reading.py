"""The files that the policy commands read."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from signoff.domain.errors import InvalidRequest, MalformedJson, PolicyInvalid
from signoff.domain.policy import Policy
from signoff.domain.policy_file import parse_policy
from signoff.infra.json_text import parse_json


def read_policy(file: Path) -> Policy:
    """Raises PolicyInvalid with all that is wrong, one a line."""
    try:
        return parse_policy(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyInvalid(f"{file} can't be read: {error}") from None
    except PolicyInvalid as error:
        lines = [f"  {problem['where']}: {problem['message']}" for problem in error.details["problems"]]
        raise PolicyInvalid("\n".join([f"{file} can't be used:", *lines])) from None


def read_json(file: Path) -> Any:
    """Raises InvalidRequest (it can't be read), MalformedJson."""
    try:
        return json_argument(file.read_bytes(), str(file))
    except OSError as error:
        raise InvalidRequest(f"{file} can't be read: {error.strerror}") from None


def read_document(file: Path) -> Any:
    """JSON if the file's name ends so, else TOML. Raises InvalidRequest, MalformedJson."""
    if file.suffix == ".json":
        return read_json(file)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidRequest(f"{file} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{file} is not TOML: {str(error)[:200] or 'nested too deeply'}") from None


def json_argument(raw: bytes, name: str) -> Any:
    """Raises MalformedJson, which says that it is `name`."""
    try:
        return parse_json(raw)
    except MalformedJson as error:
        raise MalformedJson(f"{name}: {error.message.replace('the body', 'it')}") from None
