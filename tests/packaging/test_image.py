"""The image is made from the wheel and pinned packages, and doesn't run as root."""

from __future__ import annotations

import json
import re

import pytest

from tests.packaging.tree import BUILD_FILES, ROOMS, ROOT

DOCKER = ROOT / "infra" / "docker"
# One instruction a line: continuation lines joined, comments and blank lines gone.
TEXT = re.sub(r"\\\n\s*", "", (DOCKER / "Dockerfile").read_text())
INSTRUCTIONS = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
FINAL = INSTRUCTIONS[max(n for n, line in enumerate(INSTRUCTIONS) if line.startswith("FROM ")) :]


def last(keyword: str) -> str:
    return [line.removeprefix(keyword).strip() for line in FINAL if line.startswith(f"{keyword} ")][-1]


def test_there_are_two_stages() -> None:
    assert sum(line.startswith("FROM ") for line in INSTRUCTIONS) == 2


def test_it_installs_pinned_packages_and_then_the_wheel() -> None:
    steps = [
        "--require-hashes -r /src/requirements/build.txt",
        "--require-hashes -r /src/requirements/main.txt",
        "pip wheel --no-deps --no-build-isolation --wheel-dir /dist /src",
        "pip install --no-deps --no-index /dist/*.whl",
    ]
    places = [TEXT.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)


def test_every_other_install_is_refused() -> None:
    installs = re.findall(r"pip install [^&]*", TEXT)
    assert [each for each in installs if "--require-hashes" not in each and "--no-index" not in each] == []


def test_the_final_stage_takes_the_environment_alone() -> None:
    copies = [line for line in FINAL if line.startswith(("COPY", "ADD"))]
    assert copies == ["COPY --from=build /opt/signoff /opt/signoff"]


def test_it_does_not_run_as_root() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER"))


def test_signals_reach_the_process() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["signoff"]


@pytest.mark.parametrize("name", [*ROOMS, *BUILD_FILES, "requirements"])
def test_the_builder_is_sent_what_the_wheel_is_made_from(name: str) -> None:
    assert f"!{name}" in ignore_lines()


def test_the_builder_is_sent_nothing_else() -> None:
    lines = ignore_lines()
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == {*ROOMS, *BUILD_FILES, "requirements"}


def ignore_lines() -> list[str]:
    lines = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]
