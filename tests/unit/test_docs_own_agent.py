"""The how-to about an agent of one's own: its code runs, and does what the text says."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from signoff.domain import Policy
from signoff.workers import Agent, NotApplied, Refused
from signoff.workers.current import CurrentEffect, running
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


async def book(agent: Agent, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception) -> tuple[str, str]:
    """What the tool returns, and the key that the hotel was sent."""
    keys: list[str] = []

    def hotel(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = functools.partial(httpx.AsyncClient, transport=httpx.MockTransport(hotel))
    monkeypatch.setattr(httpx, "AsyncClient", client)
    with running(CurrentEffect("op_1", "op_1.0", 1)):
        return str(await agent.tools_by_name["book_room"].ainvoke({"room": 12, "price": 120.0})), keys[0]


def test_the_page_has_the_files_that_it_speaks_of() -> None:
    assert set(FILES) == {"hotel/agent.py", "hotel/policy.toml"}


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
        (httpx.ReadTimeout("late"), httpx.ReadTimeout),
        (httpx.Response(500), httpx.HTTPStatusError),
    ],
)
async def test_outcomes_are_told_as_the_page_says(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        await book(agent, monkeypatch, answer)
