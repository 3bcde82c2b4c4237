"""The dispatcher as a process: its activities, and how it starts and stops."""

from __future__ import annotations

import asyncio
import signal

from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.hints import CeleryHints
from signoff.infra.settings import Settings
from signoff.workers.dispatcher import recovery, run_activities
from signoff.workers.streaming import stream_activities


async def run_dispatcher(settings: Settings, addresses: Addresses) -> None:
    """Runs until SIGTERM or Ctrl-C."""
    stopping = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stopping.set)
    hints = CeleryHints(addresses.redis_url, settings.publish_timeout_seconds)
    try:
        async with open_services(settings, addresses, hints=hints) as services:
            async with stream_activities(services, addresses.redis_url) as streams:
                activities = [*recovery(services.store, hints, settings), *streams]
                await run_activities(activities, settings.dispatch_interval_seconds, stopping)
    finally:
        await asyncio.to_thread(hints.close)
