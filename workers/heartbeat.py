"""Renews the leases of a worker process, and says that it is there, on a thread, a loop and a connection of its own.

One node that blocks the process's event loop must not stop the heartbeat of every other run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Lock, Thread
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.infra.postgres.leases import Lease, renew
from signoff.infra.postgres.pool import CONNECTION
from signoff.infra.postgres.workers import Presence, announce, say_stopped
from signoff.workers.guarding import Guard, Stop

log = logging.getLogger(__name__)

LONGEST_LOOK_SECONDS = 0.5
SECONDS_BETWEEN_ANNOUNCEMENTS = 5.0
LONGEST_ANNOUNCEMENT_SECONDS = 5.0

Connection = AsyncConnection[DictRow]


@dataclass(frozen=True, slots=True)
class Held:
    """A lease, and whom to tell that it is renewed or lost, or that its job shall be cancelled."""

    lease: Lease
    guard: Guard


@dataclass(frozen=True, slots=True)
class Announced:
    """What the store is told of the process. `drain` is called when an operator has asked for it, again and again;
    `is_drained` says whether it has nothing left to do, and takes nothing more."""

    presence: Presence
    drain: Callable[[], None]
    is_drained: Callable[[], bool]


class Heartbeat:
    """`look` is called at least twice a second: where a drain request is noticed on any pool. With `announced` it also
    says every few seconds that the process is there."""

    def __init__(
        self, database_url: str, lease: timedelta, look: Callable[[], None], announced: Announced | None = None
    ) -> None:
        self._database_url = database_url
        self._lease = lease
        self._look = look
        self._announced = announced
        self._held: dict[UUID, Held] = {}
        self._lock = Lock()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="signoff-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)

    def add(self, held: Held) -> None:
        with self._lock:
            self._held[held.lease.job_id] = held

    def remove(self, lease: Lease) -> None:
        with self._lock:
            held = self._held.get(lease.job_id)
            if held is not None and held.lease.fence == lease.fence:
                del self._held[lease.job_id]

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        every = self._lease.total_seconds() / 3
        renewed = due = announce_at = time.monotonic()
        conn: Connection | None = None
        while not self._stopping.is_set():
            self._look()
            if time.monotonic() >= due:
                started = time.monotonic()
                conn, ok = await self._renew(conn)
                renewed = started if ok else renewed
                due = started + every
                if time.monotonic() - renewed > self._lease.total_seconds():
                    self._lose_all()
            if self._announced is not None and time.monotonic() >= announce_at:
                conn = await self._announce(conn, self._announced)
                announce_at = time.monotonic() + min(SECONDS_BETWEEN_ANNOUNCEMENTS, every / 2)
            await asyncio.sleep(min(LONGEST_LOOK_SECONDS, every))
        await self._say_goodbye(conn)

    async def _announce(self, conn: Connection | None, announced: Announced) -> Connection | None:
        """Leases come first: it waits for nothing that would keep them from being renewed in time."""
        most = min(LONGEST_ANNOUNCEMENT_SECONDS, self._lease.total_seconds() / 6)
        try:
            if conn is None:
                conn = await asyncio.wait_for(self._connect(), most)
            drained = announced.is_drained()
            if await asyncio.wait_for(announce(conn, announced.presence, drained=drained), most):
                announced.drain()
        except Exception as error:
            expected = isinstance(error, psycopg.Error | OSError | TimeoutError)
            log.warning("not announced", extra={"error": str(error)}, exc_info=None if expected else error)
            if conn is not None:
                await conn.close()
            return None
        return conn

    async def _say_goodbye(self, conn: Connection | None) -> None:
        if conn is None:
            return
        try:
            if self._announced is not None:
                name = self._announced.presence.name
                await asyncio.wait_for(say_stopped(conn, name), LONGEST_ANNOUNCEMENT_SECONDS)
        except (psycopg.Error, OSError, TimeoutError) as error:
            log.warning("left without a word", extra={"error": str(error)})
        finally:
            await conn.close()

    async def _connect(self) -> Connection:
        return await AsyncConnection.connect(self._database_url, connect_timeout=5, **CONNECTION)

    async def _renew(self, conn: Connection | None) -> tuple[Connection | None, bool]:
        with self._lock:
            held = dict(self._held)
        if not held:
            return conn, True
        started = time.monotonic()
        try:
            conn = conn or await self._connect()
            kept = await asyncio.wait_for(
                renew(conn, [one.lease for one in held.values()], self._lease), self._lease.total_seconds() / 2
            )
        except Exception as error:
            # Whatever it is, the next beat tries again: a heartbeat that ends lets every lease lapse.
            expected = isinstance(error, psycopg.Error | OSError | TimeoutError)
            log.warning("leases not renewed", extra={"error": str(error)}, exc_info=None if expected else error)
            if conn is not None:
                await conn.close()
            return None, False
        for job_id, one in held.items():
            self._tell(one, kept.get(job_id), started)
        return conn, True

    def _tell(self, held: Held, cancel_requested: bool | None, renewed_at: float) -> None:
        if cancel_requested is None:
            self.remove(held.lease)
            held.guard.stop(Stop.lost)
            return
        held.guard.renew(renewed_at)
        if cancel_requested:
            held.guard.stop(Stop.cancelled)

    def _lose_all(self) -> None:
        """No renewal in a whole lease: others may have the jobs by now."""
        with self._lock:
            held, self._held = list(self._held.values()), {}
        for one in held:
            one.guard.stop(Stop.lost)
