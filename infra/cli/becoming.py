"""The processes of `signoff.workers`, which this room may not import: the command becomes them."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def command_of(process: str) -> list[str]:
    """How to start `worker` or `dispatcher`. With -m the current folder is on the path, where agents often are."""
    return [sys.executable, "-m", "signoff.workers", process]


def become(process: str) -> NoReturn:
    """Replaces this process, so that signals go straight to the one that handles them."""
    command = command_of(process)
    sys.stdout.flush()
    os.execv(command[0], command)
