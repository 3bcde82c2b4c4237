"""Starts a server on a free port and waits until it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded.account import Account
from signoff.infra.embedded.guarded import GuardedServer, Launch
from signoff.infra.embedded.home import ServerHome
from signoff.infra.embedded.ports import free_port

_TRIES = 5
_ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.02
_PORT_TAKEN = "Address already in use"


class _PortTaken(EmbeddedServerFailed):
    """Somebody else was faster."""


def start_on_a_port(
    home: ServerHome,
    account: Account,
    launch_on: Callable[[int], Launch],
    answers: Callable[[int], bool],
    port: int | None,
) -> tuple[GuardedServer, int]:
    """Start on `port`, or on any free one. The port of a server that was there before is never changed."""
    for _ in range(_TRIES):
        chosen = port or free_port()
        try:
            return _start(home, account, launch_on(chosen), partial(answers, chosen)), chosen
        except _PortTaken as error:
            taken = error
    raise taken


def _start(home: ServerHome, account: Account, launch: Launch, answers: Callable[[], bool]) -> GuardedServer:
    server = GuardedServer.start(home, account, launch)
    try:
        _await_answer(server, home, launch, answers)
    except BaseException:
        server.stop()
        raise
    return server


def _await_answer(server: GuardedServer, home: ServerHome, launch: Launch, answers: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _ANSWER_SECONDS
    while not answers():
        if not server.running:
            raise _failure(home, f"{launch.command[0]} ended during its start")
        if time.monotonic() > deadline:
            raise _failure(home, f"{launch.command[0]} did not answer within {_ANSWER_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _failure(home: ServerHome, what: str) -> EmbeddedServerFailed:
    tail = home.log_tail()
    kind = _PortTaken if _PORT_TAKEN in tail else EmbeddedServerFailed
    return kind(f"{what}. The end of its log:\n{tail}")
