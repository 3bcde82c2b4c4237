"""How a command reaches the store: as somebody, by their token, or as whoever administers the database."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import psycopg
import typer
from pydantic import ValidationError

from signoff.domain.authority import Principal
from signoff.domain.errors import SettingsInvalid, StoreUnavailable, TokenInvalid
from signoff.infra.addresses import Addresses, resolve
from signoff.infra.bootstrap import open_services
from signoff.infra.hints import NoHints
from signoff.infra.services import Services
from signoff.infra.settings import Settings
from signoff.infra.tokens import authenticate

DOOR = "cli"
CONNECT_SECONDS = 5

T = TypeVar("T")

TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Read the token from FILE instead of SIGNOFF_TOKEN"),
]


def load_settings() -> Settings:
    """Raises SettingsInvalid, naming each variable that can't be read, but not its value: it may be a secret."""
    try:
        return Settings()
    except ValidationError as error:
        problems = [f"SIGNOFF_{str(found['loc'][0]).upper()}: {found['msg']}" for found in error.errors()]
        raise SettingsInvalid("\n  ".join(["the settings can't be used:", *problems])) from None


def act(work: Callable[[Services, Principal], Awaitable[T]], token_file: Path | None) -> T:
    """Does `work` as the owner of the token, over the same store as every other door.

    Raises:
        SettingsInvalid, TokenInvalid, StoreUnavailable, SchemaOutdated, and what `work` raises.
    """
    settings = load_settings()
    token = _token(settings, token_file)

    async def authenticated(services: Services) -> T:
        return await work(services, await authenticate(services.store, token))

    return asyncio.run(_within(settings, resolve(settings), authenticated))


def administrator() -> str:
    """Who administers from here, as the system calls them: for the record alone, it opens nothing."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or "administrator"


def administer(work: Callable[[Services], Awaitable[T]]) -> T:
    """Does `work` with the database alone, as somebody who has its address.

    Raises:
        SettingsInvalid, StoreUnavailable, SchemaOutdated, and what `work` raises.
    """
    settings = load_settings()
    addresses = Addresses(database_address(settings), "")
    return asyncio.run(_within(settings, addresses, work, hints=NoHints()))


def database_address(settings: Settings) -> str:
    """The database's, whether or not a broker is known."""
    configured = settings.database_url
    return configured.get_secret_value() if configured else resolve(settings).database_url


async def check_reachable(database_url: str) -> None:
    """The pool keeps trying; for somebody who waits in a terminal the first answer is the one to show.

    Raises:
        StoreUnavailable, SettingsInvalid.
    """
    try:
        conn = await psycopg.AsyncConnection.connect(database_url, connect_timeout=CONNECT_SECONDS)
    except psycopg.ProgrammingError:
        # Its message may quote the address, with the password.
        raise SettingsInvalid("SIGNOFF_DATABASE_URL is not an address that PostgreSQL understands") from None
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"the database can't be reached: {str(error).strip()}") from None
    await conn.close()


@contextmanager
def refusals_in_words() -> Iterator[None]:
    """Raises SettingsInvalid where the database's user lacks a right."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise SettingsInvalid(f"the database's user may not do this: {error.diag.message_primary}") from None


async def _within(
    settings: Settings,
    addresses: Addresses,
    work: Callable[[Services], Awaitable[T]],
    hints: NoHints | None = None,
) -> T:
    _speak_plainly()
    await check_reachable(addresses.database_url)
    with refusals_in_words():
        async with open_services(settings, addresses, hints=hints, pool_size=2) as services:
            return await work(services)


def _speak_plainly() -> None:
    logging.basicConfig(format="signoff: %(message)s", level=logging.WARNING)


def _token(settings: Settings, token_file: Path | None) -> str:
    if token_file is not None:
        return _read(token_file)
    if settings.token is None:
        raise TokenInvalid("a token is needed: set SIGNOFF_TOKEN, or name a file with --token-file")
    return settings.token.get_secret_value().strip()


def _read(token_file: Path) -> str:
    try:
        return token_file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise TokenInvalid(f"the token can't be read from {token_file}: {error}") from None
