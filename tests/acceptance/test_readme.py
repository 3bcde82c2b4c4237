"""The README's ten minutes, and the pages that go on from there: their commands run, and do what the text says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually_sync
from tests.support.processes import REPOSITORY
from tests.support.up import clean_environment, started

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
HOW_TO = REPOSITORY / "docs" / "how-to"
PAGES = [(HOW_TO / name).read_text(encoding="utf-8") for name in ("decide-by-webhook.md", "replay-a-failure.md")]
ADDRESS = "http://127.0.0.1:8080"
SCRIPT_SECONDS = 100

FILES = dict(re.findall(r"^`([\w/.-]+)`\n\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))

MISSING = [tool for tool in ("curl", "openssl") if not shutil.which(tool)]
# Without them it says so here; in CI it fails instead.
pytestmark = pytest.mark.skipif(bool(MISSING) and not os.environ.get("CI"), reason=f"needs {' and '.join(MISSING)}")


def marked(page: str) -> list[str]:
    return re.findall(r"^<!-- tested -->\n```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Tried:
    """What is there after somebody has typed all of it."""

    said: str
    refunds: list[str]
    jobs: list[dict[str, Any]]
    effects: list[dict[str, Any]]
    database_url: str

    def job(self, words: str) -> dict[str, Any]:
        (job,) = [job for job in self.jobs if words in job["input"]]
        return job

    def effect(self, order: str) -> dict[str, Any]:
        (effect,) = [effect for effect in self.effects if effect["args"]["order_id"] == order]
        return effect


@pytest.fixture(scope="module")
def folder(state_folder: Path) -> Path:
    """With the README's files in it."""
    for name, text in FILES.items():
        path = state_folder.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace(ADDRESS, "ADDRESS"), encoding="utf-8")
    return state_folder.parent


@pytest.fixture(scope="module")
def tried(folder: Path, state_folder: Path) -> Iterator[Tried]:
    settings = {"AGENTS": "shop.agent:agent", "pythonpath": str(folder), "STATE_DIR": str(state_folder)}
    with started(folder, "up", "--port", "0", **settings) as up:
        up.await_words("ready; Ctrl-C stops")
        address = re.findall(r"http://127\.0\.0\.1:\d+", up.said)[0]
        said = run_all(folder, state_folder, address)
        yield look(folder, address, said)


def run_all(folder: Path, state_folder: Path, address: str) -> str:
    """Everything in one shell, as somebody types it, with `signoff` on the path."""
    for name in FILES:
        path = folder / name
        path.write_text(path.read_text().replace("ADDRESS", address))
    blocks = [block for page in (README, *PAGES) for block in marked(page)]
    script = "set -euxo pipefail\n" + "\n".join(blocks).replace(ADDRESS, address) + '\necho "OTTO=$OTTO"\n'
    environment = clean_environment(STATE_DIR=str(state_folder))
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=SCRIPT_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def look(folder: Path, address: str, said: str) -> Tried:
    """Once nothing is under way any more, with the operator's token."""
    token = re.findall(r"^OTTO=(\S+)$", said, re.MULTILINE)[0]
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{address}/v1", headers=headers, trust_env=False) as client:

        def settled() -> bool:
            jobs = client.get("/jobs").json()["jobs"]
            effects = client.get("/effects").json()["effects"]
            return {one["status"] for one in [*jobs, *effects]} <= {"succeeded", "failed"}

        eventually_sync(settled, within_seconds=20, message=lambda: json.dumps(client.get("/effects").json(), indent=1))
        jobs = everything(client, "jobs", "job_id")
        effects = everything(client, "effects", "operation_id")
    addresses = json.loads((folder / "state" / "addresses.json").read_text())
    refunds = (folder / "shop" / "refunds.txt").read_text().splitlines()
    return Tried(said, refunds, jobs, effects, addresses["database_url"])


def everything(client: httpx.Client, kind: str, key: str) -> list[dict[str, Any]]:
    return [client.get(f"/{kind}/{one[key]}").json() for one in client.get(f"/{kind}").json()[kind]]


def test_the_readme_has_the_files_that_it_speaks_of() -> None:
    assert set(FILES) == {"shop/agent.py", "shop/policy.toml", "submit.py", "decide.py"}
    assert len(marked(README)) == 6
    assert all(marked(page) for page in PAGES)


def test_each_refund_was_paid_once_and_as_it_was_decided(tried: Tried) -> None:
    assert sorted(tried.refunds) == sorted({*tried.refunds}), "nothing twice"
    assert {"A-1001 20.0", "A-1002 3.0", "A-1003 4.0", "A-1004 13.0"} <= set(tried.refunds)


def test_jobs_came_by_every_door_that_the_readme_shows(tried: Tried) -> None:
    doors = {words: tried.job(words)["door"] for words in ("A-1001", "A-1002", "A-1003")}
    assert doors == {"A-1001": "http", "A-1002": "stream", "A-1003": "celery"}


def test_the_signed_decision_counted(tried: Tried) -> None:
    assert re.search(r'200 \{.*"type":"approve","reviewer":"rita"', tried.said)


def test_the_operator_settled_the_doubt_and_the_job_went_on(tried: Tried) -> None:
    assert "in_doubt to succeeded  by otto [refunds.txt]" in tried.said
    assert tried.job("A-1004")["status"] == "succeeded"
    assert tried.effect("A-1004")["attempts"] == 1, "it was not sent again"


def test_the_signed_rejection_counted_too(tried: Tried) -> None:
    assert re.search(r'"status":"decided".*"type":"reject","reviewer":"rita"', tried.said)
    assert "It was repaired." in tried.job("A-1005")["result"]["text"]
    assert not [line for line in tried.refunds if "A-1005" in line]


def test_the_failed_effect_was_sent_again_alone_and_under_a_new_key(tried: Tried) -> None:
    assert "the bank is closed" in tried.job("A-1006")["result"]["text"], "what the agent was told stays as it was"
    effect = tried.effect("A-1006")
    assert (effect["status"], effect["attempts"], effect["generation"]) == ("succeeded", 2, 1)
    assert tried.refunds.count("A-1006 9.0") == 1
