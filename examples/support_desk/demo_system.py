"""Signoff as the demo runs it: `signoff up` as a process of its own, three tokens, and HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments

REPOSITORY = Path(__file__).resolve().parents[2]
AGENT = "examples.support_desk.agent:agent"
COMMAND = [sys.executable, "-m", "signoff.infra.cli"]
PEOPLE = {
    "desk": ["--right", "submit"],
    "rita": ["--group", "support-leads", "--right", "review"],
    "otto": ["--right", "operate"],
}
SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 30.0
SECONDS_BETWEEN_LOOKS = 0.1
KEPT = ("SIGNOFF_DATABASE_URL", "SIGNOFF_REDIS_URL", "SIGNOFF_MODEL")
LAST_LINES = 15


class DemoFailed(Exception):
    """Something that the demo can't go on without; the message says what and where to look."""


class Refusal(Exception):
    """Signoff refused a request; code and message are its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} [{code}]")
        self.code = code


@dataclass(frozen=True, slots=True)
class System:
    """A running Signoff, and the tokens of those who use it here."""

    url: str
    tokens: Mapping[str, str]
    client: httpx.Client

    def get(self, who: str, path: str, **query: Any) -> dict[str, Any]:
        return self._answer(self.client.get(path, params=query, headers=self._headers(who)))

    def post(self, who: str, path: str, body: Any, **headers: str) -> dict[str, Any]:
        """Raises Refusal for an answer from 400 up."""
        return self._answer(self.client.post(path, json=body, headers={**self._headers(who), **headers}))

    def _headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"}

    def _answer(self, answer: httpx.Response) -> dict[str, Any]:
        body: dict[str, Any] = answer.json()
        if answer.is_error:
            raise Refusal(body.get("code", str(answer.status_code)), body.get("detail", answer.reason_phrase))
        return body


@contextmanager
def running_signoff(folder: Path, payments: Payments, mailbox: Mailbox) -> Iterator[System]:
    """Signoff with embedded servers (or those that are configured), until the block is left.

    Raises:
        DemoFailed: it does not start, or stops meanwhile.
    """
    port = _free_port()
    environment = _environment(folder, port, payments, mailbox)
    url = f"http://127.0.0.1:{port}"
    log = folder / "signoff.log"
    try:
        with _up(log, environment) as process, httpx.Client(base_url=url, timeout=30.0, trust_env=False) as client:
            _wait_until_ready(process, client)
            yield System(url, _tokens(environment), client)
    except (DemoFailed, Refusal, httpx.TransportError) as error:
        raise DemoFailed(f"{error}\nSignoff said last:\n{_tail(log)}") from error


def _environment(folder: Path, port: int, payments: Payments, mailbox: Mailbox) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SIGNOFF_") or name in KEPT}
    path = os.pathsep.join(part for part in (str(REPOSITORY), os.environ.get("PYTHONPATH")) if part)
    return {
        **mine,
        "PYTHONPATH": path,
        "SIGNOFF_STATE_DIR": str(folder / "state"),
        "SIGNOFF_AGENTS": AGENT,
        "SIGNOFF_HTTP_PORT": str(port),
        "SUPPORT_DESK_PAYMENTS_URL": payments.url,
        "SUPPORT_DESK_SMTP_HOST": mailbox.host,
        "SUPPORT_DESK_SMTP_PORT": str(mailbox.port),
    }


@contextmanager
def _up(log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        # In the demo's own process group: a closed terminal reaches it too.
        process = subprocess.Popen(
            [*COMMAND, "up"], cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], client: httpx.Client) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DemoFailed(f"Signoff stopped with exit code {process.returncode}.")
        try:
            if client.get("/readyz").is_success:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(SECONDS_BETWEEN_LOOKS)
    raise DemoFailed(f"Signoff was not ready within {SECONDS_TO_START:.0f} s.")


def _tokens(environment: dict[str, str]) -> dict[str, str]:
    with ThreadPoolExecutor() as pool:
        tokens = pool.map(lambda name: _token(name, PEOPLE[name], environment), PEOPLE)
        return dict(zip(PEOPLE, tokens, strict=True))


def _token(name: str, options: list[str], environment: dict[str, str]) -> str:
    command = [*COMMAND, "tokens", "create", "--name", name, *options, "--json"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoFailed(f"no token for {name}: {done.stderr.strip() or done.stdout.strip()}")
    token: str = json.loads(done.stdout)["token"]
    return token


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:]) or "nothing"
