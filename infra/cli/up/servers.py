"""The two servers: each the configured one, or else embedded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from signoff.infra.addresses import Addresses
from signoff.infra.embedded import EmbeddedPostgres, EmbeddedValkey
from signoff.infra.embedded.server import EmbeddedServer
from signoff.infra.settings import Settings


@dataclass(frozen=True, slots=True)
class Running:
    """Where the servers are, and those of them that are ours to watch, by the names of their logs."""

    addresses: Addresses
    embedded: Mapping[str, EmbeddedServer]

    def describe(self) -> Sequence[tuple[str, str]]:
        return [
            self._describe("postgres", self.addresses.database_url),
            self._describe("valkey" if "valkey" in self.embedded else "redis", self.addresses.redis_url),
        ]

    def _describe(self, name: str, address: str) -> tuple[str, str]:
        return name, f"{'embedded' if name in self.embedded else 'configured'}, {without_password(address)}"


@contextmanager
def running_servers(settings: Settings, folder: Path) -> Iterator[Running]:
    """Raises EmbeddedServerFailed."""
    embedded: dict[str, EmbeddedServer] = {}
    database_url, redis_url = _configured(settings.database_url), _configured(settings.redis_url)
    with ExitStack() as stack:
        if database_url is None:
            postgres = stack.enter_context(EmbeddedPostgres(folder))
            embedded["postgres"], database_url = postgres, postgres.url
        if redis_url is None:
            valkey = stack.enter_context(EmbeddedValkey(folder))
            embedded["valkey"], redis_url = valkey, valkey.url
        yield Running(Addresses(database_url, redis_url), embedded)


def without_password(address: str) -> str:
    """Host, port and path: what a person recognises an address by."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    return f"{host}{port}{parts.path}"


def _configured(address: SecretStr | None) -> str | None:
    return address.get_secret_value() if address else None
