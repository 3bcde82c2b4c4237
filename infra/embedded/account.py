"""Who an embedded server runs as: `nobody` when we are root, because PostgreSQL refuses root; else ourselves."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from signoff.domain.errors import EmbeddedServerFailed


@dataclass(frozen=True)
class Account:
    """A user and a group to change to; both unset: no change."""

    user: int | None = None
    group: int | None = None

    @property
    def changes(self) -> bool:
        return self.user is not None

    def can_enter(self, folder: Path) -> bool:
        """Whether the account may pass through `folder` and all above it, by their mode bits."""
        resolved = folder.resolve()
        return not self.changes or all(_has(path, stat.S_IXOTH) for path in (resolved, *resolved.parents))

    def can_use(self, path: Path) -> bool:
        """Whether the account may read `path`, all below it, and run what we may run; not what is above it."""
        return not self.changes or all(_open_to_all(each) for each in (path, *path.rglob("*")))

    def own(self, path: Path) -> None:
        """Give `path` to the account."""
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group, follow_symlinks=False)

    def own_pipe(self, descriptor: int) -> None:
        """Let the account open `/dev/stdin` when that is this pipe."""
        if self.user is not None and self.group is not None:
            os.fchown(descriptor, self.user, self.group)


def _open_to_all(path: Path) -> bool:
    needed = stat.S_IROTH
    if path.is_dir() or path.stat().st_mode & stat.S_IXUSR:
        needed |= stat.S_IXOTH
    return _has(path, needed)


def _has(path: Path, bits: int) -> bool:
    return path.stat().st_mode & bits == bits


def server_account() -> Account:
    """The account for servers that this process starts."""
    if os.geteuid() != 0:
        return Account()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        # initdb insists on a user with a name.
        raise EmbeddedServerFailed(
            "PostgreSQL refuses to run as root, and there is no user nobody to run as"
        ) from error
    return Account(nobody.pw_uid, nobody.pw_gid)
