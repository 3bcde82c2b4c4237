"""From nothing to ready, and back to nothing."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from signoff.domain.errors import EmbeddedServerFailed, ProcessFailed
from signoff.infra.addresses import Addresses
from signoff.infra.cli.acting import check_reachable
from signoff.infra.cli.becoming import command_of
from signoff.infra.cli.up.child import Child, Launch
from signoff.infra.cli.up.readiness import Registrations, api_is_ready
from signoff.infra.cli.up.screen import Follower, say, say_where
from signoff.infra.cli.up.servers import Running, running_servers
from signoff.infra.cli.up.signals import Signals
from signoff.infra.cli.up.state import StateFolder
from signoff.infra.embedded.server import EmbeddedServer
from signoff.infra.postgres.migrate import migrate
from signoff.infra.settings import Settings

READY_SECONDS = 60.0
WATCH_SECONDS = 0.2
GRACE_SECONDS = 10.0
PROCESSES = ("api", "dispatcher", "worker")  # in the order in which they start; they stop the other way round


class Up:
    """One `signoff up`. With no agents configured there is no worker."""

    def __init__(self, settings: Settings, state: StateFolder, signals: Signals, *, verbose: bool) -> None:
        self._settings = settings
        self._state = state
        self._signals = signals
        self._names = PROCESSES if settings.agents.strip() else PROCESSES[:-1]
        self._follower = Follower(state, self._names if verbose else ())
        self._children: list[Child] = []
        self._servers: Mapping[str, EmbeddedServer] = {}

    def run(self) -> None:
        """Returns never: KeyboardInterrupt ends it, and by then nothing that it started is left.

        Raises:
            ProcessFailed, EmbeddedServerFailed: something has ended by itself, or did not get ready.
            StoreUnavailable, SchemaOutdated, SettingsInvalid.
        """
        with ExitStack() as stack:
            try:
                self._start(stack)
                self._watch()
            finally:
                self._signals.stop()
                stack.close()

    def _start(self, stack: ExitStack) -> None:
        servers = stack.enter_context(running_servers(self._settings, self._state.path))
        self._servers = servers.embedded
        asyncio.run(_prepare(servers.addresses.database_url))
        registrations = stack.enter_context(Registrations(servers.addresses.database_url))
        self._state.write_addresses(servers.addresses)
        stack.callback(self._state.remove_addresses)
        stack.enter_context(self._processes(servers.addresses))
        self._await(registrations)
        self._introduce(servers, registrations.agents())

    @contextmanager
    def _processes(self, addresses: Addresses) -> Iterator[None]:
        try:
            for name in self._names:
                self._children.append(Child.start(self._launch(name, addresses), self._state))
            yield
        finally:
            self._signals.stop()
            say("stopping: " + ", ".join(child.name for child in reversed(self._children)))
            # The worker first: it drains while all that it needs is still there.
            for child in reversed(self._children):
                child.stop(lambda: self._signals.hard)
            self._follower.repeat()

    def _launch(self, name: str, addresses: Addresses) -> Launch:
        command = [sys.executable, "-m", "signoff.infra.cli", "api"] if name == "api" else command_of(name)
        drains = name in ("api", "worker")
        patience = GRACE_SECONDS + (self._settings.drain_seconds if drains else 0.0)
        return Launch(name, command, _environment(self._settings, addresses), patience)

    def _await(self, registrations: Registrations) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self._is_ready(registrations):
            self._look()
            if time.monotonic() > deadline:
                raise ProcessFailed(f"not ready within {READY_SECONDS:.0f} s.{self._tails()}")
            time.sleep(WATCH_SECONDS / 2)

    def _is_ready(self, registrations: Registrations) -> bool:
        wanted = {spec.strip() for spec in self._settings.agents.split(",") if spec.strip()}
        if len(registrations.agents()) < len(wanted):
            return False
        return api_is_ready(self._settings.http_host, self._settings.http_port)

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(WATCH_SECONDS)

    def _look(self) -> None:
        self._follower.repeat()
        for child in self._children:
            if not child.running:
                tail = self._state.log_tail(child.name)
                raise ProcessFailed(f"the {child.name} has ended by itself. The end of its log:\n{tail}")
        for name, server in self._servers.items():
            if not server.running:
                tail = self._state.log_tail(name)
                raise EmbeddedServerFailed(f"{name} has ended by itself. The end of its log:\n{tail}")

    def _tails(self) -> str:
        return "".join(f"\nThe end of the {name}'s log:\n{self._state.log_tail(name)}" for name in self._names)

    def _introduce(self, servers: Running, agents: list[str]) -> None:
        for name, where in servers.describe():
            say_where(name, where)
        host, port = self._settings.http_host, self._settings.http_port
        say_where("api", f"http://{f'[{host}]' if ':' in host else host}:{port}")
        say_where("dispatcher", "running")
        say_where("worker", ", ".join(agents) if agents else "none: SIGNOFF_AGENTS names no agent")
        say_where("state", str(self._state.path))
        say("ready; Ctrl-C stops")


async def _prepare(database_url: str) -> None:
    await check_reachable(database_url)
    await migrate(database_url)


def _environment(settings: Settings, addresses: Addresses) -> Mapping[str, str]:
    """Ours, with the addresses, and without the token: no process acts as the person who started it."""
    kept = {name: value for name, value in os.environ.items() if name != "SIGNOFF_TOKEN"}
    return {
        **kept,
        "SIGNOFF_DATABASE_URL": addresses.database_url,
        "SIGNOFF_REDIS_URL": addresses.redis_url,
        "SIGNOFF_HTTP_HOST": settings.http_host,
        "SIGNOFF_HTTP_PORT": str(settings.http_port),
    }
