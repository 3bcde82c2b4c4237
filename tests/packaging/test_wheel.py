"""The wheel ships the rooms, all of them and nothing else, under one name."""

from __future__ import annotations

import configparser
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.packaging.conftest import build
from tests.packaging.tree import room_files, run


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def shipped(wheel: Path) -> set[str]:
    return {name for name in contents(wheel) if ".dist-info/" not in name}


def metadata_file(wheel: Path, name: str) -> str:
    (found,) = (text for path, text in contents(wheel).items() if path.endswith(f".dist-info/{name}"))
    return found.decode()


def test_the_wheel_holds_the_files_of_the_rooms(wheel: Path, snapshot: Path) -> None:
    assert shipped(wheel) == room_files(snapshot)


def test_signoff_is_the_only_top_level_name_and_a_namespace(wheel: Path) -> None:
    assert {name.split("/")[0] for name in shipped(wheel)} == {"signoff"}
    assert "signoff/__init__.py" not in shipped(wheel)


@pytest.mark.parametrize("room", ["domain", "infra", "workers"])
def test_each_room_is_typed(wheel: Path, room: str) -> None:
    assert f"signoff/{room}/py.typed" in shipped(wheel)


def test_the_wheel_brings_the_command_and_the_licence(wheel: Path) -> None:
    scripts = configparser.ConfigParser()
    scripts.read_string(metadata_file(wheel, "entry_points.txt"))
    assert dict(scripts["console_scripts"]) == {"signoff": "signoff.infra.cli.main:main"}
    assert "Apache License" in metadata_file(wheel, "licenses/LICENSE")
    assert Parser().parsestr(metadata_file(wheel, "METADATA"))["License-Expression"] == "Apache-2.0"


def test_the_sdist_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "tarfile", "-e", sdist, tmp_path / "unpacked", cwd=tmp_path)
    (tree,) = (tmp_path / "unpacked").iterdir()
    (tmp_path / "out").mkdir()
    assert contents(build("--wheel", tree, tmp_path / "out")) == contents(wheel)
