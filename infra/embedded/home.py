"""Where an embedded server keeps its things: lock, log and password beside the data folder that the server owns."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded.account import Account
from signoff.infra.embedded.lock import FolderLock

_LOG_TAIL_LINES = 20


def default_state_folder() -> Path:
    """`$XDG_STATE_HOME/signoff`, or its usual place; for root a system folder: `nobody` can't enter root's home."""
    named = os.environ.get("XDG_STATE_HOME")
    if named:
        return Path(named) / "signoff"
    return Path("/var/lib/signoff") if os.geteuid() == 0 else Path.home() / ".local" / "state" / "signoff"


class ServerHome:
    """The files of the server `name` in `folder`; without a folder, in a throw-away one that `close` removes."""

    def __init__(self, name: str, folder: Path | None, account: Account) -> None:
        self.throwaway = folder is None
        self._name = name
        self._account = account
        self._folder = folder.absolute() if folder else _temporary_folder(account)
        self._lock = FolderLock(self._folder / f"{name}.lock")

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def data(self) -> Path:
        """Belongs to the server's account."""
        return self._folder / self._name

    @property
    def lock_fd(self) -> int:
        return self._lock.fd

    def open(self) -> None:
        """Create what is missing and take the lock. Folders that exist are never changed."""
        try:
            _make_folder(self._folder, self._account)
            if not self._account.can_enter(self._folder):
                raise EmbeddedServerFailed(
                    f"{self._name} runs as the user nobody, who can't enter {self._folder}; name another folder"
                )
            self._lock.acquire()
        except OSError as error:
            raise EmbeddedServerFailed(f"{self._folder} can't be used for {self._name}: {error}") from error

    def close(self) -> None:
        self._lock.release()
        if self.throwaway:
            shutil.rmtree(self._folder, ignore_errors=True)

    def make_data_folder(self, path: Path) -> None:
        """An empty folder of the account's own, in place of whatever was there."""
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700)
        self._account.own(path)

    def password(self) -> str:
        """Made once, then read from a file that only its owner can read."""
        path = self._folder / f"{self._name}.password"
        if not path.exists():
            draft = path.with_name(f"{path.name}.draft")
            draft.unlink(missing_ok=True)
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(32))
            draft.rename(path)
        return path.read_text()

    def fresh_log(self) -> int:
        """A descriptor of an empty log; the log before it is kept as `.1`."""
        path = self._log
        if path.exists():
            path.rename(path.with_suffix(".log.1"))
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)

    def log_tail(self) -> str:
        if not self._log.exists():
            return "(no log)"
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])

    @property
    def _log(self) -> Path:
        return self._folder / f"{self._name}.log"


def _make_folder(folder: Path, account: Account) -> None:
    """Folders that we make let the server's account pass, and nobody look."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(0o711 if account.changes else 0o700)


def _temporary_folder(account: Account) -> Path:
    bases = [base for base in (Path(tempfile.gettempdir()), Path("/var/tmp")) if account.can_enter(base)]
    if not bases:
        raise EmbeddedServerFailed("there is no folder for temporary files that the user nobody can enter; set TMPDIR")
    return bases[0] / f"signoff-{os.getpid()}-{secrets.token_hex(8)}"
