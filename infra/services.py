"""What a process works with once it is put together."""

from __future__ import annotations

from dataclasses import dataclass

from signoff.domain.ports import Hints
from signoff.infra.postgres.pool import Pool
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.infra.telemetry.tracing import NO_TRACING, Tracing


@dataclass(frozen=True, slots=True)
class Services:
    """Open for as long as `open_services` is."""

    settings: Settings
    pool: Pool
    store: PostgresStore
    hints: Hints
    tracing: Tracing = NO_TRACING
