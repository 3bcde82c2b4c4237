"""Logs: fields, and no secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from signoff.infra.logs import configure_logs
from signoff.infra.settings import Settings


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_ids_are_fields_from_both_kinds_of_logger(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Settings())
    logging.getLogger("signoff.a").warning("lost %s", "it", extra={"job_id": "j-1"})
    structlog.get_logger("signoff.b").info("parked", job_id="j-2")
    first, second = lines(capsys)
    assert (first["event"], first["job_id"], first["level"], first["logger"]) == (
        "lost it",
        "j-1",
        "warning",
        "signoff.a",
    )
    assert (second["event"], second["job_id"]) == ("parked", "j-2")
    assert first["timestamp"].endswith("Z")


def test_tokens_bodies_and_passwords_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Settings())
    secret = "sgn_abcdefghijklmnopqrstuvwxyz"
    log = logging.getLogger("signoff.a")
    log.info("got %s", secret, extra={"token": "t", "body": "b", "inner": {"authorization": secret, "list": [secret]}})
    log.info("postgresql://olga:hunter2@127.0.0.1/db and whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    try:
        raise ValueError(secret)
    except ValueError:
        log.exception("failed")
    text = capsys.readouterr().err
    for hidden in (secret, "hunter2", "MfKQ9r8G", '"t"', '"b"'):
        assert hidden not in text
    assert "@127.0.0.1/db" in text
    assert "ValueError" in text


def test_console_lines_and_levels(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Settings(log_format="console", log_level="warning"))
    local = "a local variable, which may hold a body"
    logging.getLogger("signoff.a").info("not shown")
    try:
        raise ValueError("shown")
    except ValueError:
        logging.getLogger("signoff.a").exception("failed")
    text = capsys.readouterr().err
    assert "not shown" not in text
    assert "ValueError: shown" in text
    assert local not in text
