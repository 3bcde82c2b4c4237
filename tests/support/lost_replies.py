"""Runs tests under a driver that loses writes: `SIGNOFF_TEST_LOST_REPLIES=0.01`, and `SIGNOFF_TEST_FIRST_SEED`.

Of all tests only those run in whose file worker code is used. A test that was hit may find other tries, other histories
or doubt where it expected none: then it is listed as disturbed. What fails the run: a promise that the database shows
to be broken, an error that is none of ours, and whatever fails without having been hit.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Generator
from types import ModuleType
from typing import Any, cast

import psycopg
import pytest
from psycopg.rows import dict_row

from signoff.domain.errors import SignoffError
from tests.support.faulty_driver import FaultyDriver
from tests.support.judging_once import judge_ledger

WORKER_CODE = ("signoff.workers", "tests.support.runners", "tests.support.till", "tests.support.paying")
HIT, DISTURBED = "hit by lost writes", "disturbed by lost writes"
# What a test may be surprised by where a run took another way.
SURPRISES = (AssertionError, SignoffError, ValueError, StopIteration, IndexError, KeyError)


class LostReplies:
    """A pytest plugin."""

    def __init__(self, rate: float, seed: int) -> None:
        self._driver = FaultyDriver(rate, seed)
        self._rate = rate
        self._seed = seed
        self._patch = pytest.MonkeyPatch()
        self._lost: Counter[str] = Counter()
        self._hit = self._disturbed = 0

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if _uses_workers(getattr(item, "module", None))]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen

    def pytest_sessionstart(self) -> None:
        self._driver.install(self._patch)

    def pytest_sessionfinish(self) -> None:
        self._patch.undo()

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._driver.begin_test(item.nodeid, self._seed)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "call" and self._driver.databases:
            # On the report, since tests may run in several processes.
            report.user_properties.append((HIT, dict(self._driver.struck)))
            self._judge(item, call, report)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = dict(report.user_properties)
        if report.when == "call" and HIT in told:
            self._hit += 1
            self._disturbed += DISTURBED in told
            self._lost.update(cast(dict[str, int], told[HIT]))

    def _judge(self, item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
        again = f"SIGNOFF_TEST_LOST_REPLIES={self._rate} SIGNOFF_TEST_FIRST_SEED={self._seed}"
        found = [one for url in self._driver.databases for one in _breaches(url)]
        if found and (report.failed or not _bends_rows(item)):
            report.outcome = "failed"
            report.longrepr = "\n".join([*found, f"run it again with {again}", str(report.longrepr or "")])
        elif report.failed and call.excinfo is not None and isinstance(call.excinfo.value, SURPRISES):
            said = (str(call.excinfo.value) or call.excinfo.typename).splitlines()[0][:120]
            report.user_properties.append((DISTURBED, said))
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: disturbed: {said}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("lost writes")
        lost = ", ".join(f"{kind} {count}" for kind, count in self._lost.items()) or "none"
        terminalreporter.line(f"rate {self._rate}, seed {self._seed}: {lost}")
        terminalreporter.line(f"{self._hit} tests were hit, of which {self._disturbed} expected a calm world")


def _uses_workers(module: ModuleType | None) -> bool:
    values = [] if module is None else list(vars(module).values())
    return any(str(getattr(value, "__module__", "")).startswith(WORKER_CODE) for value in values)


def _bends_rows(item: pytest.Item) -> bool:
    """Whether its file writes to our tables by hand: then what is broken may be its own doing."""
    return "UPDATE signoff." in item.path.read_text()


def _breaches(url: str) -> list[str]:
    """What the database shows to be broken; asked on a thread, since a test's loop may be there."""
    found: list[str] = []

    async def ask() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True, row_factory=dict_row) as conn:
            found.extend(await judge_ledger(conn, at_rest=False))

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    thread.join()
    return found
