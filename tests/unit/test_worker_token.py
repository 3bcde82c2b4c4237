"""A token that an agent could hold decides nothing, because no worker has one."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from signoff.infra.addresses import Addresses
from signoff.infra.cli.up.running import _environment
from signoff.infra.settings import Settings
from signoff.workers.__main__ import main
from signoff.workers.app import require_no_token

ADDRESSES = Addresses("postgresql://127.0.0.1:1/none", "redis://127.0.0.1:1")


def test_a_worker_with_a_token_refuses_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIGNOFF_TOKEN", "sgn_ritas")
    monkeypatch.setenv("SIGNOFF_DATABASE_URL", ADDRESSES.database_url)
    monkeypatch.setenv("SIGNOFF_REDIS_URL", ADDRESSES.redis_url)
    assert main(["worker"]) == 1
    said = capsys.readouterr().err
    assert "SIGNOFF_TOKEN is set" in said
    assert "sgn_ritas" not in said


@pytest.mark.parametrize("token", [None, "", " "])
def test_an_empty_one_is_none(token: str | None) -> None:
    require_no_token(Settings(token=None if token is None else SecretStr(token)))


def test_up_gives_its_processes_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_TOKEN", "sgn_ritas")
    given = _environment(Settings(), ADDRESSES)
    assert "sgn_ritas" not in " ".join(given.values())
    assert "SIGNOFF_TOKEN" not in given
