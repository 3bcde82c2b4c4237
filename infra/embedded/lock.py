"""One owner per data folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from signoff.domain.errors import EmbeddedServerFailed

_POLL_SECONDS = 0.05


class FolderLock:
    """A lock on a file, which the server inherits: free only when the owner *and* the server's processes are gone.

    A live owner means refusal at once. When the owner is dead its server is about to stop, and that is waited for.
    """

    def __init__(self, path: Path, *, patience_seconds: float = 30.0) -> None:
        self._path = path
        self._patience = patience_seconds
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        assert self._fd is not None, "the lock is not held"
        return self._fd

    def acquire(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._wait_for(fd)
        except BaseException:
            os.close(fd)
            raise
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _wait_for(self, fd: int) -> None:
        deadline = time.monotonic() + self._patience
        while not _try_lock(fd):
            owner = _owner(fd)
            if _lives(owner) or time.monotonic() > deadline:
                who = f"process {owner}" if owner else "another process"
                raise EmbeddedServerFailed(
                    f"{self._path.parent} is in use by {who}; stop it, or name another folder", owner=owner
                )
            time.sleep(_POLL_SECONDS)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(fd: int) -> int | None:
    text = os.pread(fd, 32, 0)
    return int(text) if text.isdigit() else None


def _lives(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
