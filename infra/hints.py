"""Hints: "this job is due". The row in Postgres is the work; a hint only makes it start sooner.

A hint is one Celery message with the id alone, published by name from a thread of its own, with a bounded wait.
Whatever fails or is lost, the dispatcher offers again. Where the queue is long already the hint is left out: a worker
that has a message goes on to claim due rows by itself until there are none.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from celery import Celery
from redis import Redis
from redis.exceptions import RedisError

RUN_JOB = "signoff.run_job"
RUN_EFFECT = "signoff.run_effect"
SUBMIT_JOB = "signoff.submit_job"
DECIDE_REVIEW = "signoff.decide_review"
INTAKE_QUEUE = "signoff.intake"

LONG_ENOUGH = 32
MOST_PENDING = 256

log = logging.getLogger(__name__)


def agent_queue(agent: str) -> str:
    """The queue of an agent: only workers that serve it listen there."""
    return f"signoff.agent.{agent}"


def make_broker(redis_url: str, timeout_seconds: float) -> Celery:
    """The Celery application as every process configures it: ids only, early acknowledgement, no results."""
    app = Celery("signoff", broker=redis_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=INTAKE_QUEUE,
        task_publish_retry=False,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_pool_acquire_timeout=timeout_seconds,
        broker_transport_options={
            "visibility_timeout": 600,
            "socket_timeout": max(timeout_seconds, 5.0),
            "socket_connect_timeout": timeout_seconds,
            "socket_keepalive": True,
            "health_check_interval": 25,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
        },
    )
    return app


class CeleryHints:
    """Publishes hints off the caller's path. Close it to let those under way end."""

    def __init__(self, redis_url: str, timeout_seconds: float) -> None:
        self._broker = make_broker(redis_url, timeout_seconds)
        self._redis = Redis.from_url(redis_url, socket_timeout=timeout_seconds, socket_connect_timeout=timeout_seconds)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="signoff-hints")
        self._pending = 0
        self._failing = False

    def offer(self, agent: str, job_id: UUID) -> None:
        """Never waits and never raises."""
        self._submit(RUN_JOB, str(job_id), agent_queue(agent))

    def offer_effect(self, agent: str, operation_id: str) -> None:
        """The same for an effect that runs by itself."""
        self._submit(RUN_EFFECT, operation_id, agent_queue(agent))

    def queue_is_empty(self, agent: str) -> bool:
        """True also if the broker can't be asked: then offering again does no harm."""
        try:
            return int(self._redis.llen(agent_queue(agent))) == 0
        except RedisError:
            return True

    def close(self) -> None:
        # What is under way is published, unless the broker is away: then the dispatcher will offer.
        self._thread.shutdown(wait=True, cancel_futures=self._failing)
        self._redis.close()
        self._broker.close()

    def _submit(self, task: str, argument: str, queue: str) -> None:
        if self._pending >= MOST_PENDING:
            return
        self._pending += 1
        try:
            self._thread.submit(self._publish, task, argument, queue)
        except RuntimeError:  # closed: the dispatcher will offer
            self._pending -= 1

    def _publish(self, task: str, argument: str, queue: str) -> None:
        try:
            if int(self._redis.llen(queue)) < LONG_ENOUGH:
                self._broker.send_task(task, args=[argument], queue=queue, retry=False, ignore_result=True)
            self._failing = False
        except Exception as error:
            self._failing = True
            log.warning(
                "hint not published, the dispatcher will offer again", extra={"task": task, "error": str(error)}
            )
        finally:
            self._pending -= 1


class NoHints:
    """For a process without a broker: the dispatcher finds the row."""

    def offer(self, agent: str, job_id: UUID) -> None:
        return None

    def offer_effect(self, agent: str, operation_id: str) -> None:
        return None
