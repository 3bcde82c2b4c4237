"""What both embedded servers share: the life of a guarded process on a port of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from signoff.infra.embedded.account import server_account
from signoff.infra.embedded.guarded import GuardedServer, Launch
from signoff.infra.embedded.home import ServerHome
from signoff.infra.embedded.starting import start_on_a_port


class EmbeddedServer(ABC):
    """Runs from `start` until `stop`, or until this process ends in whatever way.

    With a folder, the data stay there, and one process at a time may use it; without one they are thrown away at
    `stop`. The address stays the same over a restart.
    """

    def __init__(self, name: str, folder: Path | None) -> None:
        self._account = server_account()
        self._home = ServerHome(name, folder, self._account)
        self._server: GuardedServer | None = None
        self._port: int | None = None
        self._password = ""

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError("the server has not been started")
        return self._port

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.running

    @property
    def folder(self) -> Path:
        return self._home.folder

    def start(self) -> None:
        """Returns when the server answers."""
        if self._server is not None:
            raise RuntimeError("the server has been started already")
        self._home.open()
        try:
            self._password = self._home.password()
            self._prepare()
            self._launch()
            self._complete()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Returns when the server is gone. Stopping twice is allowed."""
        try:
            self._halt()
        finally:
            self._home.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def _prepare(self) -> None:
        """Make programs and data ready."""

    @abstractmethod
    def _launch_on(self, port: int) -> Launch: ...

    @abstractmethod
    def _answers(self, port: int) -> bool: ...

    @abstractmethod
    def _complete(self) -> None:
        """What is left to do once the server answers."""

    def _launch(self) -> None:
        self._server, self._port = start_on_a_port(
            self._home, self._account, self._launch_on, self._answers, self._port
        )

    def _relaunch(self) -> None:
        try:
            self._launch()
        except BaseException:
            self.stop()
            raise

    def _halt(self, first: int = 0) -> None:
        """End the server, beginning with the signal number `first` of its escalation."""
        server, self._server = self._server, None
        if server is not None:
            server.stop(first)
