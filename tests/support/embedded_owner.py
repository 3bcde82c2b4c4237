"""A program that owns embedded servers: prints what it started as JSON, then waits to be ended.

    python -m tests.support.embedded_owner FOLDER|- [fork]

With `fork` a child without exec outlives it, as the children of a pre-forking worker may.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from signoff.domain.errors import SignoffError
from signoff.infra.embedded import EmbeddedPostgres, EmbeddedValkey
from signoff.infra.embedded.server import EmbeddedServer


def main(folder: str, *options: str) -> None:
    home = None if folder == "-" else Path(folder)
    with EmbeddedPostgres(home) as postgres, EmbeddedValkey(home) as valkey:
        child = _fork_a_sleeper() if "fork" in options else None
        facts = {"postgres": _facts(postgres), "valkey": _facts(valkey), "uid": os.geteuid(), "child": child}
        print(json.dumps(facts), flush=True)
        signal.pause()


def _facts(server: EmbeddedServer) -> dict[str, object]:
    return {"pid": server.pid, "port": server.port, "folder": str(server.folder)}


def _fork_a_sleeper() -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        signal.pause()
        os._exit(0)
    return child


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except SignoffError as error:
        sys.exit(f"{error.code}: {error}")
