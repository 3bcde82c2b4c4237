"""The support desk from end to end, on this machine, with nothing to set up.

    python -m examples.support_desk.demo [--auto]

Starts the payments service, the mail server and Signoff, submits five jobs, has each review decided (by you in a
terminal, by itself with `--auto` or without one), and compares Signoff's ledger with the books of the payments service
and with the mail. Exits 0 only if each thing happened exactly once, and what was refused not at all.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from examples.support_desk.demo_checks import check
from examples.support_desk.demo_console import DemoConsole
from examples.support_desk.demo_people import Decider, Plan, Terminal
from examples.support_desk.demo_script import JOBS, SAME_EVERY_TIME
from examples.support_desk.demo_story import Story
from examples.support_desk.demo_system import DemoFailed, System, running_signoff
from examples.support_desk.demo_tables import show_books, show_checks
from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments

INTERRUPTED = 130


def main() -> int:
    options = _options()
    console = DemoConsole()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(console, auto=options.auto or not (sys.stdin.isatty() and sys.stdout.isatty()))
    except DemoFailed as error:
        console.print(f"\n[red]The demo failed:[/red] {error}", soft_wrap=True)
        return 1
    except (KeyboardInterrupt, EOFError):
        console.print("\nStopped; nothing is left running.")
        return INTERRUPTED


def _run(console: Console, *, auto: bool) -> int:
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(_throwaway_folder())
        payments = stack.enter_context(Payments(folder / "payments.jsonl"))
        mailbox = stack.enter_context(Mailbox(folder / "mail.jsonl"))
        console.print(f"payments service  {payments.url}\nmail server       {mailbox.host}:{mailbox.port}")
        with console.status("starting Signoff …"):
            system = stack.enter_context(running_signoff(folder, payments, mailbox))
        console.print(f"Signoff           {system.url}   (up after {time.monotonic() - began:.1f} s)")
        decider: Decider = Plan() if auto else Terminal(console)
        passed = _tell(console, system, decider, payments, mailbox, auto=auto)
    console.print(f"\nEverything is stopped. It took {time.monotonic() - began:.1f} s.")
    return 0 if passed else 1


def _tell(
    console: Console, system: System, decider: Decider, payments: Payments, mailbox: Mailbox, *, auto: bool
) -> bool:
    story = Story(console, system, decider)
    story.submit(JOBS)
    story.follow_to_the_end()
    books = story.books(payments, mailbox)
    show_books(console, books)
    checks = check(books, SAME_EVERY_TIME if auto else None)
    show_checks(console, checks)
    return all(done.passed for done in checks)


@contextmanager
def _throwaway_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="signoff-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # Started by root, the database runs as `nobody`, who must be able to pass through.
        folder.chmod(0o711)
        yield folder


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Watch an agent ask before it acts")
    parser.add_argument("--auto", action="store_true", help="decide by itself, without asking")
    return parser.parse_args()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
