"""A PostgreSQL server of our own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql

from signoff.infra.embedded.binaries import POSTGRES, SHARED_COPIES, runnable
from signoff.infra.embedded.cluster import create_cluster
from signoff.infra.embedded.guarded import Launch
from signoff.infra.embedded.ports import LOOPBACK
from signoff.infra.embedded.server import EmbeddedServer

USER = "signoff"
DATABASE = "signoff"

# Fast shutdown, then immediate (recovery at the next start), then none at all.
_ESCALATION = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
_MODES = {"fast": 0, "immediate": 1}

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "io_method": "sync",  # no worker processes for reads that are served from memory
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "logging_collector": "off",
}
_SAFE_SETTINGS = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# For throw-away data of tests alone: such data never have to survive the machine, and tests wait for the disk a lot.
_UNSAFE_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres(EmbeddedServer):
    """A server with one database and one role, both `signoff`. `fsync` may be off for throw-away data only."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        fsync: bool = True,
        packages: Path | None = None,
        copies: Path = SHARED_COPIES,
    ) -> None:
        if folder is not None and not fsync:
            raise ValueError("fsync may be off for throw-away data only")
        super().__init__("postgres", folder)
        self._fsync = fsync
        self._packages = packages
        self._copies = copies
        self._program = Path()

    @property
    def url(self) -> str:
        """The address with its password; known once the server has been started."""
        return self._url(self.port, DATABASE)

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Same data, same address; `immediate` is a crash with the recovery that follows."""
        self._halt(_MODES[mode])
        self._relaunch()

    def _prepare(self) -> None:
        self._program = runnable(POSTGRES, self._account, packages=self._packages, copies=self._copies)
        create_cluster(self._program.with_name("initdb"), self._home, self._account, USER, self._password)

    def _launch_on(self, port: int) -> Launch:
        settings = {**_SETTINGS, **(_SAFE_SETTINGS if self._fsync else _UNSAFE_SETTINGS), "port": str(port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Launch([str(self._program), "-D", str(self._home.data), *options], _ESCALATION)

    def _answers(self, port: int) -> bool:
        # The file first: a server that is still starting would log each attempt as a fatal error.
        if not self._says_ready():
            return False
        try:
            self._connect(port).close()
        except psycopg.OperationalError:
            return False
        return True

    def _says_ready(self) -> bool:
        try:
            lines = (self._home.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[7].strip() == "ready"

    def _complete(self) -> None:
        with self._connect(self.port) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def _connect(self, port: int) -> psycopg.Connection:
        return psycopg.connect(self._url(port, "postgres"), autocommit=True, connect_timeout=10)

    def _url(self, port: int, database: str) -> str:
        return f"postgresql://{USER}:{self._password}@{LOOPBACK}:{port}/{database}"
