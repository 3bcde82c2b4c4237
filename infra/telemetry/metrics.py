"""Metrics of the whole deployment, read from Postgres, in Prometheus's text form.

Whoever scrapes, and however often: the database is asked once in a few seconds, by short statements, each in a
transaction of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from signoff.domain.errors import StoreUnavailable
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.telemetry.measures import DURATION, FAILED, MEASURES, Family, Kind, Measure
from signoff.infra.telemetry.measuring import BUCKETS

KEPT_SECONDS = 5.0
MOST_MILLISECONDS_OF_ONE = 2000

FORMS: Mapping[Kind, Any] = {
    Kind.gauge: GaugeMetricFamily,
    Kind.counter: CounterMetricFamily,
    Kind.histogram: GaugeHistogramMetricFamily,
}

Rows = Sequence[Mapping[str, Any]]

log = logging.getLogger(__name__)


class Metrics:
    """One for a process."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._text = b""
        self._until = 0.0

    async def text(self) -> bytes:
        """Everything that is measured, at most a few seconds old. A measure that fails is left out, and said so.

        Raises:
            StoreUnavailable: nothing is known.
        """
        async with self._lock:
            if time.monotonic() >= self._until:
                self._text = _rendered(await self._measured())
                self._until = time.monotonic() + KEPT_SECONDS
            return self._text

    async def _measured(self) -> list[Metric]:
        started = time.monotonic()
        metrics: list[Metric] = []
        failed = _metric(FAILED)
        for measure in MEASURES:
            rows = await self._rows(measure)
            failed.add_metric([measure.name], float(rows is None))
            metrics += [_shown(family, rows) for family in measure.families if rows is not None]
        duration = _metric(DURATION)
        duration.add_metric([], time.monotonic() - started)
        return [*metrics, failed, duration]

    async def _rows(self, measure: Measure) -> Rows | None:
        try:
            async with self._store.begin() as tx:
                await tx.conn.execute(f"SET LOCAL statement_timeout = '{MOST_MILLISECONDS_OF_ONE}ms'")
                return await (await tx.conn.execute(measure.sql)).fetchall()
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                raise
            log.warning("measure not taken", extra={"measure": measure.name, "error": str(error)})
            return None


class _Measured(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _rendered(metrics: Sequence[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Measured(metrics))
    text: bytes = generate_latest(registry)
    return text


def _metric(family: Family) -> Any:
    forms = {
        Kind.gauge: GaugeMetricFamily,
        Kind.counter: CounterMetricFamily,
        Kind.histogram: GaugeHistogramMetricFamily,
    }
    return forms[family.kind](family.name, family.help, labels=family.labels)


def _shown(family: Family, rows: Rows) -> Metric:
    metric: Any = _metric(family)
    for row in rows:
        labels = [str(row[label]) for label in family.labels]
        if family.kind is Kind.histogram:
            metric.add_metric(labels, _buckets(row), gsum_value=row["sum"])
        elif row[family.column] is not None:
            metric.add_metric(labels, float(row[family.column]))
    shown: Metric = metric
    return shown


def _buckets(row: Mapping[str, Any]) -> list[tuple[str, float]]:
    below = [(str(bound), float(row[f"le_{place}"])) for place, bound in enumerate(BUCKETS)]
    return [*below, ("+Inf", float(row["count"]))]
