"""The state folder: one `signoff up` at a time, the logs of its processes, and the run file that others find it by."""

from __future__ import annotations

import os
from pathlib import Path

from signoff.domain.errors import SettingsInvalid
from signoff.infra.addresses import Addresses, remove_run_file, write_run_file
from signoff.infra.embedded.lock import FolderLock

TAIL_LINES = 20


class StateFolder:
    """Made if it is missing. Folders that exist are never changed."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = FolderLock(self.path / "up.lock")

    def open(self) -> None:
        """Raises SettingsInvalid if the folder can't be used, EmbeddedServerFailed if another process has it."""
        try:
            _make(self.path)
            self._lock.acquire()
        except OSError as error:
            raise SettingsInvalid(f"the state folder {self.path} can't be used: {error}") from None

    def close(self) -> None:
        self._lock.release()

    @property
    def lock_fd(self) -> int:
        """For processes to inherit: the folder is free only when the last of them is gone."""
        return self._lock.fd

    def write_addresses(self, addresses: Addresses) -> None:
        write_run_file(self.path, addresses)

    def remove_addresses(self) -> None:
        remove_run_file(self.path)

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def fresh_log(self, name: str) -> int:
        """A descriptor of an empty log; the log before it is kept as `.1`."""
        path = self.log(name)
        if path.exists():
            path.rename(path.with_suffix(".log.1"))
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)

    def log_tail(self, name: str) -> str:
        path = self.log(name)
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:]) or "  (nothing in its log)"


def _make(folder: Path) -> None:
    """When root starts embedded servers, they run as nobody, who has to pass through."""
    mode = 0o711 if os.geteuid() == 0 else 0o700
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(mode)
