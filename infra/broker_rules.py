"""What the broker's settings must be, and what is lost otherwise. The doctor compares; so does a test, with the tasks.

Hints may be lost: the row is the work. The two intake tasks are the work itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Must(NamedTuple):
    """A setting of Celery, what it must be, and why."""

    setting: str
    value: Any
    why: str


MUST = (
    Must("task_acks_late", False, "hints would run twice at once whenever the connection blinks"),
    Must("task_acks_on_failure_or_timeout", True, "a hint that fails would come back for ever"),
    Must("task_reject_on_worker_lost", None, "a job that kills its worker would kill one after the other"),
    Must("task_ignore_result", True, "results would fill Redis"),
    Must("task_serializer", "json", "whoever can write to Redis could run code here"),
    Must("accept_content", ["json"], "whoever can write to Redis could run code here"),
    Must("task_publish_retry", False, "a request would wait while Redis is away"),
    Must("worker_prefetch_multiplier", 1, "a busy worker would sit on hints that others could take"),
    Must("worker_enable_remote_control", False, "whoever can write to Redis could stop workers"),
    Must("broker_connection_retry_on_startup", True, "a worker would not start while Redis is away"),
    Must("broker_connection_max_retries", None, "a worker would give up and exit while Redis is away"),
    Must("result_backend", None, "results would be kept"),
)
# Longer than the longest thing that is acknowledged late takes: a submission or a decision, with its wait for a lock.
LEAST_VISIBILITY_SECONDS = 300

# Celery reads these before anything that we set.
DIVERTING = (
    "CELERY_BROKER_URL",
    "CELERY_BROKER_READ_URL",
    "CELERY_BROKER_WRITE_URL",
    "CELERY_RESULT_BACKEND",
    "CELERY_CONFIG_MODULE",
    "CELERY_LOADER",
)


def broken_rules(app: Any, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """What of a Celery application's settings is not so, each in words."""
    for must in MUST:
        value = app.conf[must.setting]
        if value != must.value:
            yield f"{must.setting} is {value!r}: {must.why}"
    options = app.conf.broker_transport_options
    if (seconds := options.get("visibility_timeout", 0)) < LEAST_VISIBILITY_SECONDS:
        yield f"visibility_timeout is {seconds} s: intake tasks would run twice at once"
    if not options.get("socket_timeout"):
        yield "socket_timeout is not set: publishing would wait for ever on a Redis that hangs"
    for name in DIVERTING:
        if name in (os.environ if environment is None else environment):
            yield f"{name} is set: Celery takes it for its own, and workers and publishers may miss each other"
