"""Scenes for faults: one for each module, and one for each test that breaks more than its workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from signoff.infra.embedded import EmbeddedPostgres
from tests.support.databases import ConfiguredServer
from tests.support.scene import Scene, open_scene
from tests.support.surroundings import Surroundings, open_surroundings


@pytest.fixture(scope="module")
def surroundings(
    postgres_server: EmbeddedPostgres | ConfiguredServer,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Surroundings]:
    with open_surroundings(postgres_server.url, template_database, tmp_path_factory.mktemp("desk")) as opened:
        yield opened


@pytest.fixture(scope="module")
async def scene(surroundings: Surroundings) -> AsyncIterator[Scene]:
    """Of the whole module: each test uses references of its own, and kills the workers that it starts."""
    async with surroundings.desk() as desk, open_scene(desk, surroundings.folder) as opened:
        yield opened


@pytest.fixture
async def own_scene(surroundings: Surroundings, tmp_path: Path) -> AsyncIterator[Scene]:
    """The same for one test, in the module's database."""
    async with surroundings.desk() as desk, open_scene(desk, tmp_path) as opened:
        yield opened
