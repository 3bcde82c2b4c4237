"""A Valkey server of our own, spoken to as Redis."""

from __future__ import annotations

import signal
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from signoff.infra.embedded.binaries import SHARED_COPIES, VALKEY, runnable
from signoff.infra.embedded.guarded import Launch
from signoff.infra.embedded.ports import LOOPBACK
from signoff.infra.embedded.server import EmbeddedServer

_ESCALATION = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))
_GENTLY, _AT_ONCE = 0, 1


class EmbeddedValkey(EmbeddedServer):
    """With a folder, each write is on disk a second later; without one nothing is; a `restart` can keep the data."""

    def __init__(
        self, folder: Path | None = None, *, packages: Path | None = None, copies: Path = SHARED_COPIES
    ) -> None:
        super().__init__("valkey", folder)
        self._packages = packages
        self._copies = copies
        self._program = Path()

    @property
    def url(self) -> str:
        """The address with its password; known once the server has been started."""
        return f"redis://:{self._password}@{LOOPBACK}:{self.port}/0"

    def restart(self, *, keep_data: bool) -> None:
        """Same address; without `keep_data` the server comes back empty, as one does that has lost its disk."""
        if keep_data and self._home.throwaway:
            self._save()
        self._halt(_GENTLY if keep_data else _AT_ONCE)
        if not keep_data:
            self._home.make_data_folder(self._home.data)
        self._relaunch()

    def _prepare(self) -> None:
        self._program = runnable(VALKEY, self._account, packages=self._packages, copies=self._copies)
        if not self._home.data.exists():
            self._home.make_data_folder(self._home.data)

    def _launch_on(self, port: int) -> Launch:
        # The configuration goes through a pipe: everybody on the machine can read the arguments of a process.
        return Launch([str(self._program), "-"], _ESCALATION, stdin=self._configuration(port))

    def _configuration(self, port: int) -> str:
        lines = (
            f"bind {LOOPBACK}",
            f"port {port}",
            f"requirepass {self._password}",
            f'dir "{self._home.data}"',
            "daemonize no",
            'save ""',
            f"appendonly {'no' if self._home.throwaway else 'yes'}",
            "appendfsync everysec",
            "maxmemory-policy noeviction",
        )
        return "\n".join(lines) + "\n"

    def _answers(self, port: int) -> bool:
        try:
            with self._client(port) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def _complete(self) -> None:
        """Nothing: an answer is all that is needed."""

    def _save(self) -> None:
        with self._client(self.port) as client:
            client.save()

    def _client(self, port: int) -> redis.Redis:
        # No retries of the client's own, whose pauses would outlast the server's start.
        once = Retry(NoBackoff(), 0)
        return redis.Redis(host=LOOPBACK, port=port, password=self._password, socket_timeout=10, retry=once)
