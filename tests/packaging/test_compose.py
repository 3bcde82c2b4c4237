"""docker-compose.yml can't be started in every test environment; what can be checked without is checked here."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from signoff.infra.settings import Settings
from tests.packaging.tree import ROOT, run

TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
SIGNOFF = Path(sys.executable).with_name("signoff")
OURS = ("migrate", "api", "worker", "dispatcher")
RUNNING = ("api", "worker", "dispatcher")
SECRET = re.compile(r"password|secret|token|auth", re.IGNORECASE)


def seconds(duration: str) -> float:
    assert duration.endswith("s")
    return float(duration.removesuffix("s"))


def test_the_services_are_those_of_the_design() -> None:
    assert set(SERVICES) == {"postgres", "redis", *OURS}


@pytest.mark.parametrize("service", OURS)
def test_each_command_exists(service: str, tmp_path: Path) -> None:
    (command,) = SERVICES[service]["command"]
    assert command == service
    assert command in run(SIGNOFF, command, "--help", cwd=tmp_path)


def test_each_variable_is_a_setting() -> None:
    known = {f"SIGNOFF_{field.upper()}" for field in Settings.model_fields}
    assert set(re.findall(r"\bSIGNOFF_[A-Z_]+", TEXT)) - known == set()


@pytest.mark.parametrize("service", OURS)
def test_the_environment_makes_valid_settings(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SERVICES[service]["environment"].items():
        if value is not None:
            monkeypatch.setenv(name, re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value))
    settings = Settings()
    assert settings.database_url
    assert settings.redis_url
    assert settings.environment == "production"


@pytest.mark.parametrize("service", RUNNING)
def test_everything_waits_for_the_migration(service: str) -> None:
    assert SERVICES[service]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "postgres": {"condition": "service_healthy"},
        "redis": {"condition": "service_healthy"},
    }


def test_the_migration_runs_once() -> None:
    assert SERVICES["migrate"]["restart"] == "no"
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


@pytest.mark.parametrize("service", ["postgres", "redis", "api"])
def test_servers_have_health_checks(service: str) -> None:
    assert SERVICES[service]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


@pytest.mark.parametrize("service", RUNNING)
def test_a_stop_leaves_time_to_drain(service: str) -> None:
    drain = float(SERVICES[service]["environment"]["SIGNOFF_DRAIN_SECONDS"])
    assert seconds(SERVICES[service]["stop_grace_period"]) >= drain + 10


def test_workers_and_dispatchers_can_be_scaled() -> None:
    for service in ("worker", "dispatcher"):
        assert not {"container_name", "ports", "hostname"} & SERVICES[service].keys()


def test_redis_evicts_nothing_and_keeps_a_log() -> None:
    command = " ".join(SERVICES["redis"]["command"])
    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command


def test_postgres_is_new_enough_and_keeps_its_data() -> None:
    assert int(SERVICES["postgres"]["image"].removeprefix("postgres:")) >= 16
    assert SERVICES["postgres"]["volumes"] == ["postgres:/var/lib/postgresql"]


def test_nothing_but_the_api_is_published_and_that_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"api"}
    assert all(port.startswith("127.0.0.1:") for port in published["api"])


def test_secrets_must_be_given() -> None:
    values = {name: value for service in SERVICES.values() for name, value in service.get("environment", {}).items()}
    secrets = [value for name, value in values.items() if SECRET.search(name)]
    assert secrets
    assert all(re.fullmatch(r"\$\{\w+:\?[^}]+\}", value) for value in secrets)
    assert re.findall(r"\$\{\w*PASSWORD(?!:\?)", TEXT) == []
