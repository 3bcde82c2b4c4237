"""What the doctor asks about Celery, as every process here configures it."""

from __future__ import annotations

from signoff.infra.broker_rules import MUST, broken_rules
from signoff.infra.cli.checks import Check, judged
from signoff.infra.hints import make_broker
from signoff.infra.settings import Settings


def check_broker(settings: Settings) -> Check:
    app = make_broker("redis://127.0.0.1", settings.publish_timeout_seconds)
    wrong = list(broken_rules(app))
    found = "; ".join(wrong) or f"{len(MUST)} settings that would lose or repeat work are as they must be"
    remedy = "take these variables out of the environment of every process; Celery is configured by Signoff alone"
    return judged("broker", not wrong, found, remedy)
