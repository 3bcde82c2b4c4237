"""`signoff doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer

from signoff.domain.errors import SettingsInvalid
from signoff.infra.addresses import resolve
from signoff.infra.cli.acting import database_address, load_settings
from signoff.infra.cli.apps import one_command
from signoff.infra.cli.checks import Check, State, failed
from signoff.infra.cli.checks_broker import check_broker
from signoff.infra.cli.checks_database import check_database
from signoff.infra.cli.checks_redis import check_redis
from signoff.infra.cli.output import JsonFlag, print_json, print_line, print_table
from signoff.infra.settings import Settings

app = one_command()


@app.command()
def doctor(json: JsonFlag = False) -> None:
    """Look for what is wrong with a deployment, and say what to do about it. Exits 1 if anything is.

    It changes nothing, and needs no token.
    """
    checks = asyncio.run(_examine(load_settings()))
    well = all(check.ok for check in checks)
    if json:
        print_json({"ok": well, "checks": [check.view() for check in checks]})
    else:
        _print(checks)
    if not well:
        raise typer.Exit(1)


async def _examine(settings: Settings) -> Sequence[Check]:
    database, redis = await asyncio.gather(_database(settings), _redis(settings))
    return [*database, check_broker(settings), *redis]


async def _database(settings: Settings) -> Sequence[Check]:
    try:
        address = database_address(settings)
    except SettingsInvalid as error:
        return [failed("database", "no address", error.message)]
    return await check_database(address)


async def _redis(settings: Settings) -> Sequence[Check]:
    configured = settings.redis_url
    try:
        address = configured.get_secret_value() if configured else resolve(settings).redis_url
    except SettingsInvalid as error:
        return [failed("redis", "no address", error.message)]
    return await check_redis(address)


def _print(checks: Sequence[Check]) -> None:
    words = {State.ok: "ok", State.warn: "LOOK", State.fail: "WRONG"}
    print_table(("", "check", "found"), [(words[check.state], check.name, check.found) for check in checks])
    for check in checks:
        if check.remedy is not None:
            print_line(f"{check.name}: {check.remedy}")
