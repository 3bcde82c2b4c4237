"""Alert rules, dashboard and the page name metrics and labels that there are, and commands that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from signoff.infra.cli.lazy import COMMANDS, load
from signoff.infra.cli.main import app
from signoff.infra.telemetry.measures import FAMILIES, MEASURES, Kind

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "watch-it.md").read_text(encoding="utf-8")
FOLDER = files("signoff.infra.telemetry")
ALERTS = [
    rule
    for group in yaml.safe_load(FOLDER.joinpath("alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads(FOLDER.joinpath("dashboard.json").read_text("utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
BY_NAME = {family.name: family for family in FAMILIES}
# What Prometheus adds by itself: of a histogram, and of whatever it scrapes.
ADDED = {"le", "instance"}


def named(expression: str) -> set[str]:
    """The metrics of an expression; a histogram's by the name of its family."""
    found = re.findall(r"signoff_[a-z_]+", expression)
    return {name.removesuffix("_bucket") if BY_NAME.get(name.removesuffix("_bucket")) else name for name in found}


def labels(expression: str) -> set[str]:
    grouped = re.findall(r"by \(([a-z_, ]*)\)", expression)
    matched = re.findall(r"([a-z_]+)=", "".join(re.findall(r"\{(.*?)\}", expression)))
    return {label.strip() for group in grouped for label in group.split(",")} | set(matched)


@pytest.mark.parametrize("expression", [*(rule["expr"] for rule in ALERTS), *QUERIES])
def test_metrics_and_labels_of_an_expression_exist(expression: str) -> None:
    assert named(expression)
    assert named(expression) <= set(BY_NAME)
    known = {label for name in named(expression) for label in BY_NAME[name].labels}
    assert labels(expression) <= known | ADDED
    assert expression.count("(") == expression.count(")")


def test_what_is_measured_is_shown() -> None:
    assert set.union(*map(named, QUERIES)) == set(BY_NAME)


def test_counters_are_read_by_their_increase_and_nothing_else_is() -> None:
    for expression in [*(rule["expr"] for rule in ALERTS), *QUERIES]:
        counters = {BY_NAME[name].kind is Kind.counter for name in named(expression)}
        assert counters == {"increase(" in expression}, expression


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_it_is_and_which_command_settles_it(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"]
    runbook = rule["annotations"]["runbook"]
    commands = list(commands_in(runbook))
    assert commands, runbook
    for command, options in commands:
        assert options <= {option for param in command.params for option in (*param.opts, *param.secondary_opts)}


def commands_in(runbook: str) -> Iterator[tuple[TyperCommand, set[str]]]:
    """Each `signoff …` with its options. A word that is no command fails."""
    for words in re.findall(r"signoff ((?:[a-z-]+ ?)+[^;,.:]*)", runbook):
        name, *rest = words.split()
        assert name in COMMANDS, words
        command = load(name)
        if isinstance(command, TyperGroup):
            inner = command.commands[rest[0]]
            assert isinstance(inner, TyperCommand)
            command = inner
        yield command, {word for word in rest if word.startswith("--")}


def test_the_page_has_every_metric() -> None:
    rows = re.findall(r"^\| `(signoff_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    shown = [(f.name, f.kind, ", ".join(f"`{label}`" for label in f.labels) or "–", f.help) for f in FAMILIES]
    assert rows == shown


def test_names_are_as_prometheus_wants_them() -> None:
    assert len(BY_NAME) == len(FAMILIES)
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind is Kind.counter)


@pytest.mark.parametrize(("what", "file"), [("alerts", "alerts.yml"), ("dashboard", "dashboard.json")])
def test_the_command_prints_the_file(what: str, file: str) -> None:
    result = CliRunner().invoke(app, ["telemetry", what])
    assert (result.exit_code, result.stdout) == (0, FOLDER.joinpath(file).read_text("utf-8"))
