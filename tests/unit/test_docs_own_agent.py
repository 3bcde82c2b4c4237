"""The how-to about an agent of one's own: its code runs, and does what the text says."""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from signoff.domain import Policy
from signoff.workers import Agent, Changed, NotApplied, Refused, Unknown
from signoff.workers.current import CurrentEffect, running
from signoff.workers.declaring import declared
from signoff.workers.serving import load_agent

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "your-own-agent.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
LAST_PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[-1]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """The page's files, loaded as a worker loads them."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield load_agent("hotel.agent:agent")
    for name in [name for name in sys.modules if name.split(".")[0] == "hotel"]:
        del sys.modules[name]


def answered_by(provider: Callable[[httpx.Request], httpx.Response], monkeypatch: pytest.MonkeyPatch) -> None:
    client = functools.partial(httpx.AsyncClient, transport=httpx.MockTransport(provider))
    monkeypatch.setattr(httpx, "AsyncClient", client)


async def book(agent: Agent, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception) -> tuple[str, str]:
    """What the tool returns, and the key that the hotel was sent."""
    keys: list[str] = []

    def hotel(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if isinstance(answer, Exception):
            raise answer
        return answer

    answered_by(hotel, monkeypatch)
    with running(CurrentEffect("op_1", "op_1.0", 1)):
        return str(await agent.tools_by_name["book_room"].ainvoke({"room": 12, "price": 120.0})), keys[0]


def test_the_page_has_the_files_that_it_speaks_of() -> None:
    assert set(FILES) == {"hotel/agent.py", "hotel/points.py", "hotel/inn.py", "hotel/policy.toml"}


def test_the_agent_is_what_the_page_says(agent: Agent) -> None:
    assert agent.name == "hotel"
    assert {name: tool["class"] for name, tool in agent.describe().items()} == {
        "find_room": "read",
        "book_room": "keyed",
    }


@pytest.mark.parametrize(
    ("tool", "price", "verdict"),
    [("find_room", 0.0, "allow"), ("book_room", 200.0, "allow"), ("book_room", 200.5, "review"), ("other", 0, "deny")],
)
def test_both_forms_of_the_policy_judge_alike(agent: Agent, tool: str, price: float, verdict: str) -> None:
    names: dict[str, Policy] = {}
    exec(LAST_PYTHON, names)
    for policy in (agent.loaded_policy, names["policy"]):
        assert policy.judge(tool, {"price": price}, job={}, environment="development").verdict == verdict


async def test_the_hotel_is_sent_the_key(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    booked = await book(agent, monkeypatch, httpx.Response(201, json={"number": "B7"}))
    assert booked == ("Booked as B7.", "op_1.0")


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (httpx.Response(409), Refused),
        (httpx.ConnectError("no route"), NotApplied),
        (httpx.Response(429), NotApplied),
        (httpx.Response(400), Refused),
        (httpx.ReadTimeout("late"), Unknown),
        (httpx.Response(500), Unknown),
    ],
)
async def test_outcomes_are_told_as_the_page_says(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        await book(agent, monkeypatch, answer)


# --- a transactional tool, and one whose provider can be asked -----------------------------------------------------


class Written:
    """A connection that keeps what is written through it."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, tuple[object, ...]]] = []

    async def execute(self, statement: str, parameters: tuple[object, ...]) -> None:
        self.statements.append((statement, parameters))


async def test_points_are_written_through_our_connection(agent: Agent) -> None:
    give_points = importlib.import_module("hotel.points").give_points
    written = Written()
    with running(CurrentEffect("op_1", "op_1.0", 1, transaction=cast(Any, written))):
        assert await give_points.ainvoke({"guest": "ada", "points": 5}) == "5 points for ada."
    ((statement, parameters),) = written.statements
    assert statement.startswith("INSERT INTO hotel.points")
    assert parameters == ("ada", 5)
    with running(CurrentEffect("op_1", "op_1.0", 1)), pytest.raises(RuntimeError, match="transactional"):
        await give_points.ainvoke({"guest": "ada", "points": 5})


class Inn:
    """Keeps bookings by our reference."""

    def __init__(self) -> None:
        self.bookings: dict[str, str] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            return httpx.Response(204)
        if request.method == "POST":
            self.bookings[json.loads(request.content)["reference"]] = "B7"
            return httpx.Response(201, json={"number": "B7"})
        if request.url.path.startswith("/rooms/"):
            return httpx.Response(200, json={"price": 90.0})
        found = self.bookings.get(request.url.params["reference"])
        return httpx.Response(200, json=[{"number": found}] if found else [])


async def test_the_inn_is_asked_by_our_reference(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    page = importlib.import_module("hotel.inn")
    answered_by(inn := Inn(), monkeypatch)
    says, args = declared(page.book_at_inn), {"room": 1, "price": 90.0}
    assert says.probe == page.find_booking
    with running(current := CurrentEffect("op_1", "op_1.0", 1)):
        assert (await page.find_booking(args)).found == "not_found"
        assert await page.book_at_inn.ainvoke(args) == "Booked as B7."
        found = await page.find_booking(args)
    assert inn.bookings == {"op_1": "B7"}
    assert (found.found, found.reference, found.result) == ("applied", "B7", "Booked as B7.")
    assert current.references == ["B7"]
    assert says.compensation is not None
    assert page.cancel_at_inn.name == says.compensation.tool
    assert set(says.compensation.args) == set(page.cancel_at_inn.args)
    assert await page.cancel_at_inn.ainvoke({"number": "B7"}) == "Booking B7 is cancelled."


async def test_a_price_that_has_changed_is_told(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    page = importlib.import_module("hotel.inn")
    answered_by(Inn(), monkeypatch)
    await page.costs_as_much({"room": 1, "price": 90.0})
    with pytest.raises(Changed, match=r"the room costs 90\.0 by now"):
        await page.costs_as_much({"room": 1, "price": 80.0})
