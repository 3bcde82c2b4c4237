"""The pages name states, classes, codes, events, settings and commands that there are, and all of those that matter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup

from signoff.domain import effects, jobs, reviews
from signoff.domain.effects import EffectClass, EffectStatus
from signoff.domain.events import EventType
from signoff.domain.jobs import JobStatus
from signoff.domain.policy_file import parse_policy
from signoff.infra.cli.lazy import COMMANDS, load
from signoff.infra.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in [*DOCS.rglob("*.md")]}
PAGES["README.md"] = (ROOT / "README.md").read_text(encoding="utf-8")
JOBS = PAGES["docs/explanation/how-a-job-flows.md"]
EFFECTS = PAGES["docs/explanation/effects-and-doubt.md"]
OPERATIONS = PAGES["docs/operations.md"]
GLOSSARY = PAGES["docs/glossary.md"]

SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for room in ("domain", "infra", "workers")
    for kind in ("*.py", "*.sql")
    for path in (ROOT / room).rglob(kind)
)


def table(page: str, *heads: str) -> list[list[str]]:
    """The cells of the one table with this head, row by row."""
    head = re.escape("| " + " | ".join(heads) + " |")
    (body,) = re.findall(rf"^{head}\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]


def words(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def test_the_states_of_a_job() -> None:
    rows = table(JOBS, "status", "the job", "ended")
    assert [words(row[0]) for row in rows] == [{status} for status in JobStatus]
    assert {word for row in rows if row[2] == "yes" for word in words(row[0])} == jobs.ENDED


def test_the_states_of_a_review() -> None:
    rows = table(JOBS, "review", "its items")
    assert [words(row[0]) for row in rows] == [{status} for status in reviews.ReviewStatus]


def test_the_states_of_an_effect() -> None:
    rows = table(EFFECTS, "status", "means", "ends")
    assert {word for row in rows for word in words(row[0])} == set(EffectStatus)
    assert {word for row in rows if row[2] == "yes" for word in words(row[0])} == effects.ENDED


def test_the_transitions_of_an_effect() -> None:
    rows = table(EFFECTS, "from", "to", "by")
    documented = {word: words(row[1]) for row in rows for word in words(row[0])}
    assert documented == {source: set(targets) for source, targets in effects.TRANSITIONS.items() if targets}


def test_what_the_agent_is_told_covers_every_end() -> None:
    rows = table(EFFECTS, "the effect", "the agent's result message")
    assert {word for row in rows for word in words(row[0])} == effects.ENDED | effects.HELD


def test_the_classes() -> None:
    rows = table(EFFECTS, "class", "declare it when", "after an unknown outcome")
    assert [words(row[0]) for row in rows] == [{word} for word in EffectClass]


def test_the_reasons_why_a_job_waits_for_an_operator() -> None:
    codes = {word for row in table(OPERATIONS, "code", "what", "what to do") for word in words(row[0])}
    assert {code for code in codes if f'"{code}"' not in SOURCES} == set()
    assert set(re.findall(r'\bhold\(tx, job, "(\w+)"', SOURCES)) <= codes


@pytest.mark.parametrize("word", [row[0] for row in table(GLOSSARY, "word", "meaning")])
def test_a_word_of_the_glossary_is_one_that_the_code_speaks(word: str) -> None:
    assert re.search(word.replace(" ", "[ _]"), SOURCES, re.IGNORECASE), word


@pytest.mark.parametrize("page", PAGES)
def test_what_is_named_exists(page: str) -> None:
    settings = {f"SIGNOFF_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"\bSIGNOFF_[A-Z_]+\b", PAGES[page])) <= settings
    named = set(re.findall(r"signoff\.\w+\.\w+\.v1", PAGES[page]))
    assert named <= {str(kind) for kind in EventType} | {"signoff.job.refused.v1"}


def options(command: TyperCommand) -> set[str]:
    return {option for param in command.params for option in param.opts if option.startswith("--")} | {"--help"}


# A command as it stands in a block or between backticks, up to where the shell or the sentence goes on.
COMMAND = re.compile(r"(?:(?<=^)|(?<=[ `(]))signoff ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?([^`|;)\n#]*)", re.MULTILINE)


def known(page: str) -> list[tuple[str, str, str]]:
    code = "\n".join(re.findall(r"^```sh\n.*?^```$|^    [^\n]*$|`[^`\n]+`", PAGES[page], re.MULTILINE | re.DOTALL))
    return COMMAND.findall(code)


@pytest.mark.parametrize("page", [page for page in PAGES if known(page)])
def test_commands_and_their_options_exist(page: str) -> None:
    for name, second, rest in known(page):
        assert name in COMMANDS, f"signoff {name}"
        command = load(name)
        if isinstance(command, TyperGroup):
            assert second in command.commands, f"signoff {name} {second}"
        leaf = command.commands[second] if isinstance(command, TyperGroup) else command
        assert isinstance(leaf, TyperCommand)
        assert set(re.findall(r"(?<= )--[a-z-]+", rest)) <= options(leaf), f"signoff {name} {second}{rest}"


def policies() -> list[tuple[str, str]]:
    found = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [(page, block) for page, text in PAGES.items() for block in found.findall(text) if "[[rules]]" in block]


@pytest.mark.parametrize(("page", "text"), policies())
def test_a_policy_in_a_page_can_be_loaded(page: str, text: str) -> None:
    assert parse_policy(text).rules


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```python" in text])
def test_python_in_a_page_is_python(page: str) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL):
        compile(block, page, "exec")
