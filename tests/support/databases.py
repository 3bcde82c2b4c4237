"""Databases for tests: made, cloned and dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from psycopg import sql


@dataclass(frozen=True)
class ConfiguredServer:
    """A server that somebody else runs; its address is all that is known."""

    url: str


def database_at(server_url: str, name: str) -> str:
    """The address of the database `name` on the same server."""
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))


@contextmanager
def fresh_database(server_url: str, *, template: str | None = None) -> Iterator[str]:
    """The address of a new database, a copy of `template` if one is named; dropped afterwards, connected or not."""
    name = f"signoff_test_{uuid4().hex}"
    _create(server_url, name, template)
    try:
        yield database_at(server_url, name)
    finally:
        _run(server_url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _create(server_url: str, name: str, template: str | None) -> None:
    statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
    if template is not None:
        statement += sql.SQL(" TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(template))
    _run(server_url, statement)


def _run(server_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement)
