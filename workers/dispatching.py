"""The dispatcher as a process: its activities, and how it starts and stops."""

from __future__ import annotations

import asyncio
import signal
from typing import Protocol

from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.hints import CeleryHints
from signoff.infra.mail import Mailer, relay_of
from signoff.infra.redis.intake import TakeDecisions, TakeJobs
from signoff.infra.redis.publishing import ForgetOldEvents, PublishEvents
from signoff.infra.restore_watch import WatchDatabase, require_not_restored
from signoff.infra.settings import Settings
from signoff.infra.webhooks.outbound import Poster
from signoff.workers.dispatcher import Activity, ForgetOldDeliveries, Seldom, recovery, run_activities
from signoff.workers.forgetting import PurgeOldEffects
from signoff.workers.holding_upkeep import ForgetOldWorkers, WakeHeldBack
from signoff.workers.sealing import SealAudit
from signoff.workers.sending import FanOutEvents, ForgetOldSendings, SendDue
from signoff.workers.waking_forks import WakeForks

SECONDS_BETWEEN_FORGETTING = 60.0
SECONDS_BETWEEN_PURGES = 300.0
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_WAKINGS = 3.0


class Stream(Activity, Protocol):
    """An activity that holds a connection of its own."""

    async def close(self) -> None: ...


async def run_dispatcher(settings: Settings, addresses: Addresses, stopping: asyncio.Event | None = None) -> None:
    """Runs until SIGTERM or Ctrl-C, or until `stopping` is set by the caller."""
    stop = stopping or _stopped_by_signal()
    redis_url = addresses.redis_url
    hints = CeleryHints(redis_url, settings.publish_timeout_seconds)
    try:
        async with open_services(settings, addresses, hints=hints) as services:
            store = services.store
            async with store.connection() as conn:
                await require_not_restored(conn, redis_url, settings.publish_timeout_seconds)
            watch = WatchDatabase(store, redis_url, settings.publish_timeout_seconds)
            streams: list[Stream] = [
                PublishEvents(store, redis_url, settings),
                TakeJobs(store, hints, redis_url, settings, services.tracing),
                TakeDecisions(store, hints, redis_url, settings),
                SendDue(store, Poster(), Mailer(relay_of(settings))),
            ]
            try:
                forgetting: list[Activity] = [
                    Seldom(ForgetOldEvents(store, settings), SECONDS_BETWEEN_FORGETTING),
                    Seldom(ForgetOldDeliveries(store), SECONDS_BETWEEN_FORGETTING),
                    Seldom(ForgetOldSendings(store), SECONDS_BETWEEN_FORGETTING),
                    Seldom(PurgeOldEffects(store), SECONDS_BETWEEN_PURGES),
                    Seldom(ForgetOldWorkers(store), SECONDS_BETWEEN_FORGETTING),
                    Seldom(WakeHeldBack(store), SECONDS_BETWEEN_WAKINGS),
                    Seldom(WakeForks(store, hints), SECONDS_BETWEEN_WAKINGS),
                ]
                fanning = FanOutEvents(store, settings.public_url)
                watching = Seldom(watch, SECONDS_BETWEEN_LOOKS)
                activities = [
                    *recovery(store, hints, settings),
                    SealAudit(store),
                    watching,
                    fanning,
                    *streams,
                    *forgetting,
                ]
                await run_activities(activities, settings.dispatch_interval_seconds, stop)
            finally:
                for stream in (*streams, watch):
                    await stream.close()
    finally:
        await asyncio.to_thread(hints.close)


def _stopped_by_signal() -> asyncio.Event:
    stop = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stop.set)
    return stop
