"""`python -m signoff.workers [worker|dispatcher]`: what `signoff worker` and `signoff dispatcher` run."""

from __future__ import annotations

import asyncio
import sys

from signoff.domain.errors import SignoffError
from signoff.infra.addresses import resolve
from signoff.infra.logs import configure_logs
from signoff.infra.settings import Settings
from signoff.workers.app import run_worker
from signoff.workers.dispatching import run_dispatcher

USAGE = "usage: python -m signoff.workers [worker|dispatcher]"


def main(arguments: list[str]) -> int:
    what = arguments[0] if len(arguments) == 1 else "worker" if not arguments else ""
    if what not in ("worker", "dispatcher"):
        print(USAGE, file=sys.stderr)
        return 2
    settings = Settings()
    configure_logs(settings)
    try:
        addresses = resolve(settings)
        if what == "worker":
            return run_worker(settings, addresses)
        asyncio.run(run_dispatcher(settings, addresses))
    except SignoffError as error:
        print(f"signoff {what}: {error.message}", file=sys.stderr)
        for problem in error.details.get("problems", ()):
            print(f"  {problem['where']}: {problem['message']}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
