"""Creates a PostgreSQL cluster, whole or not at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import BinaryIO

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded.account import Account
from signoff.infra.embedded.guarded import server_environment
from signoff.infra.embedded.home import ServerHome

_LIMIT_SECONDS = 120.0


def create_cluster(initdb: Path, home: ServerHome, account: Account, user: str, password: str) -> None:
    """Make `home.data` a cluster whose only role is `user`; nothing is done where there is one."""
    if home.data.exists():
        return
    draft = home.data.with_suffix(".draft")
    home.make_data_folder(draft)
    _initialise([str(initdb), "-D", str(draft), *_options(home, user)], home, account, password)
    draft.rename(home.data)


def _options(home: ServerHome, user: str) -> list[str]:
    return [
        f"--username={user}",
        "--pwfile=/dev/stdin",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-instructions",
        *(["--no-sync"] if home.throwaway else []),
    ]


def _initialise(command: list[str], home: ServerHome, account: Account, password: str) -> None:
    with _as_input(password, account) as stdin:
        try:
            done = subprocess.run(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=server_environment(),
                cwd=home.folder,
                user=account.user,
                group=account.group,
                extra_groups=[] if account.changes else None,
                pass_fds=(home.lock_fd,),
                timeout=_LIMIT_SECONDS,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise EmbeddedServerFailed(f"PostgreSQL's data folder can't be created: {error}") from error
    if done.returncode != 0:
        raise EmbeddedServerFailed(
            f"PostgreSQL's data folder can't be created:\n{done.stdout.decode(errors='replace')}"
        )


def _as_input(password: str, account: Account) -> BinaryIO:
    """The password in a pipe that the account may open: it never lies in a file of the account's."""
    reading, writing = os.pipe()
    account.own_pipe(reading)
    os.write(writing, password.encode() + b"\n")
    os.close(writing)
    return os.fdopen(reading, "rb")
