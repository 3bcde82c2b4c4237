"""What is measured. Every statement goes by an index or over a small table: none reads what has ended for good."""

from __future__ import annotations

from signoff.infra.telemetry.measures_effects import EFFECT_MEASURES
from signoff.infra.telemetry.measures_jobs import JOB_MEASURES
from signoff.infra.telemetry.measures_surroundings import SURROUNDING_MEASURES
from signoff.infra.telemetry.measuring import Family, Kind, Measure

__all__ = ["DURATION", "FAILED", "FAMILIES", "MEASURES", "Family", "Kind", "Measure"]

MEASURES: tuple[Measure, ...] = (*JOB_MEASURES, *EFFECT_MEASURES, *SURROUNDING_MEASURES)

FAILED = Family("signoff_measure_failed", "1 where a measure could not be taken, by its name", labels=("measure",))
DURATION = Family("signoff_measuring_seconds", "How long it took to measure all of this")

# Everything that `/metrics` may show, in the order that it is shown in.
FAMILIES: tuple[Family, ...] = (*(family for measure in MEASURES for family in measure.families), FAILED, DURATION)
