"""How a measure is written down: a statement, and the metrics that its rows are shown as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Upper ends of a histogram's buckets, in seconds.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Kind(StrEnum):
    gauge = "gauge"
    counter = "counter"
    # Of a stretch of time that moves along: its buckets can fall, so it is read without `rate`.
    histogram = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `column` names its value in the measure's rows; a counter's name ends in `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    column: str = "value"
    kind: Kind = Kind.gauge


@dataclass(frozen=True, slots=True)
class Measure:
    """One statement, in a transaction of its own: its `now()` is an index's bound, as `clock_timestamp()` can't be.

    Its rows hold the labels of its families and their values; a NULL value is left out.
    """

    name: str
    sql: str
    families: tuple[Family, ...]
