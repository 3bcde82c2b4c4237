"""The compiled requirements: pinned, hashed, in step with pyproject.toml, and tied to no machine."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.tree import ROOT

FILES = ("main", "dev", "build")
PIN = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>[^ ;]+)(?P<marker> ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def lines(name: str) -> list[str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


def pins(name: str) -> dict[str, str]:
    found = filter(None, map(PIN.match, lines(name)))
    return {pin["name"]: pin["version"] for pin in found}


def unmet(wanted: Iterable[str], name: str) -> list[str]:
    pinned = pins(name)
    requirements = [Requirement(each) for each in wanted]
    return [
        str(each)
        for each in requirements
        if each.name != "signoff" and pinned.get(canonicalize_name(each.name), "") not in each.specifier
    ]


@pytest.mark.parametrize("name", FILES)
def test_there_is_nothing_but_pins_and_hashes(name: str) -> None:
    strange = [line for line in lines(name) if not PIN.match(line) and not HASH.match(line)]
    assert strange == []
    assert pins(name)


@pytest.mark.parametrize("name", FILES)
def test_every_pin_has_a_hash(name: str) -> None:
    text = lines(name)
    naked = [
        line for line, after in zip(text, [*text[1:], ""], strict=True) if PIN.match(line) and not HASH.match(after)
    ]
    assert naked == []


def test_the_pins_meet_what_the_project_asks_for() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert unmet(PROJECT["project"]["dependencies"], "main") == []
    assert unmet([*PROJECT["project"]["dependencies"], *extras["openai"], *extras["dev"]], "dev") == []
    assert unmet([*PROJECT["dependency-groups"]["build"], *PROJECT["build-system"]["requires"]], "build") == []


def test_development_runs_what_production_runs() -> None:
    assert pins("main").items() <= pins("dev").items()
    assert pins("build").items() <= pins("dev").items()
