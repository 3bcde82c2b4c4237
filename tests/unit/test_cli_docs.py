"""The reference pages say what there is, all of it, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperArgument, TyperCommand, TyperGroup

from signoff.infra.cli.lazy import COMMANDS, load
from signoff.infra.settings import Settings

PAGES = Path(__file__).parents[2] / "docs" / "reference"
CLI = (PAGES / "cli.md").read_text(encoding="utf-8")
SETTINGS = (PAGES / "settings.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[str, TyperCommand]]:
    for name in COMMANDS:
        command = load(name)
        if isinstance(command, TyperGroup):
            for inner_name, inner in command.commands.items():
                assert isinstance(inner, TyperCommand)
                yield f"signoff {name} {inner_name}", inner
        else:
            assert isinstance(command, TyperCommand)
            yield f"signoff {name}", command


SECTIONS = dict(re.findall(r"^### `(.+?)`\n(.*?)(?=^##|\Z)", CLI, re.MULTILINE | re.DOTALL))
EXISTING = dict(commands())


def usage(name: str, command: TyperCommand) -> str:
    arguments = [param.metavar for param in command.params if isinstance(param, TyperArgument)]
    return " ".join([name, *map(str, arguments)])


def options(command: TyperCommand) -> set[str]:
    return {param.opts[0] for param in command.params if not isinstance(param, TyperArgument)}


def test_every_command_has_its_section_with_its_arguments() -> None:
    assert set(SECTIONS) == {usage(name, command) for name, command in EXISTING.items()}


@pytest.mark.parametrize("name", EXISTING)
def test_every_option_has_its_row(name: str) -> None:
    section = SECTIONS[usage(name, EXISTING[name])]
    assert set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE)) == options(EXISTING[name])


def test_what_examples_and_sentences_name_exists() -> None:
    known = {"--help"}.union(*map(options, EXISTING.values()))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", CLI)) <= known


def test_every_setting_has_its_row_and_its_default() -> None:
    rows = dict(re.findall(r"^\| `SIGNOFF_([A-Z_]+)` \| (.*?) \|", SETTINGS, re.MULTILINE))
    assert set(rows) == {name.upper() for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        if name != "state_dir":
            assert rows[name.upper()] == shown(field.default), name


def shown(default: object) -> str:
    if default is None or default == "":
        return "–"
    return f"`{default:g}`" if isinstance(default, float) and default < 1e6 else f"`{default}`".replace(".0`", "`")


def test_settings_that_are_named_anywhere_exist() -> None:
    known = {f"SIGNOFF_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"SIGNOFF_[A-Z_]+[A-Z]", CLI + SETTINGS)) <= known
