"""A Celery worker that was told to drain takes no more messages, and leaves them to others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


def stop_taking_when(told: Callable[[], Any], queues: Sequence[str], consumer: Any) -> None:
    """Waits for it on a thread of its own; the consumer lets go of its queues on its own loop."""

    def wait() -> None:
        told()
        for queue in queues:
            consumer.call_soon(consumer.cancel_task_queue, queue)

    threading.Thread(target=wait, name="signoff-draining", daemon=True).start()
