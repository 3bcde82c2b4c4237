"""Where the database and the broker are: configured, or as a running `signoff up` wrote them down."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import SecretStr

from signoff.domain.errors import SettingsInvalid
from signoff.infra.embedded.home import default_state_folder
from signoff.infra.settings import Settings

RUN_FILE = "addresses.json"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Both hold passwords: never log them."""

    database_url: str
    redis_url: str


def state_folder(settings: Settings) -> Path:
    return settings.state_dir or default_state_folder()


def resolve(settings: Settings) -> Addresses:
    """Each address as configured, or else from the run file of `signoff up`.

    Raises:
        SettingsInvalid: naming the variable to set, or what is wrong with the run file.
    """
    running = _read(state_folder(settings) / RUN_FILE)
    return Addresses(
        database_url=_address("database_url", settings.database_url, running),
        redis_url=_address("redis_url", settings.redis_url, running),
    )


def write_run_file(folder: Path, addresses: Addresses) -> None:
    """Replaces the run file in one step; only its owner can read it."""
    draft = folder / f"{RUN_FILE}.draft"
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(addresses), file)
    draft.replace(folder / RUN_FILE)


def remove_run_file(folder: Path) -> None:
    (folder / RUN_FILE).unlink(missing_ok=True)


def _address(name: str, configured: SecretStr | None, running: Mapping[str, str]) -> str:
    if configured is not None:
        return configured.get_secret_value()
    if name not in running:
        raise SettingsInvalid(f"set SIGNOFF_{name.upper()}, or run `signoff up`, which brings its own servers")
    return running[name]


def _read(path: Path) -> Mapping[str, str]:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise SettingsInvalid(f"{path} can't be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise SettingsInvalid(f"{path} is not the run file of `signoff up`: remove it")
    return found
