"""Settings, read from the environment (`SIGNOFF_*`). Durations are in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Everything that a deployment can set. Unset addresses mean the embedded servers of `signoff up`."""

    model_config = SettingsConfigDict(env_prefix="SIGNOFF_", extra="ignore", frozen=True)

    database_url: SecretStr | None = None
    redis_url: SecretStr | None = None
    state_dir: Path | None = Field(
        default=None, description="Data of the embedded servers; default: the user's state folder"
    )

    agents: str = Field(default="", description="package.module:agent, comma separated: what a worker serves")
    model: str | None = Field(
        default=None, description="provider:model for init_chat_model; unset: the deterministic demo model"
    )
    environment: str = Field(default="development", description="What policies see as `environment`")
    token: SecretStr | None = Field(default=None, description="The bearer token that the command line acts with")

    http_host: str = "127.0.0.1"
    http_port: int = 8080
    http_max_body_bytes: int = 1_000_000
    http_requests_per_minute: int = Field(default=6000, ge=0, description="Of one caller to one process; 0: no limit")
    http_failed_logins_per_minute: int = Field(default=60, ge=0, description="From one client address; 0: no limit")

    worker_pool: Literal["prefork", "threads"] = "threads"
    worker_concurrency: int = Field(default=8, ge=1)
    database_pool_size: int = Field(default=8, ge=1)

    lease_seconds: float = Field(default=30.0, gt=0)
    max_tries: int = Field(
        default=5, ge=1, description="Claims of a job without a park in between, before an operator has to look"
    )
    wall_clock_seconds: float = Field(default=900.0, gt=0, description="Running time of one job, waiting not counted")
    max_tool_rounds: int = Field(default=25, ge=1)
    max_refused_repeats: int = Field(default=3, ge=1)
    drain_seconds: float = Field(default=20.0, gt=0)

    dispatch_interval_seconds: float = Field(default=0.25, gt=0)
    offer_backoff_seconds: float = Field(default=5.0, gt=0)
    event_retention_seconds: float = Field(default=7 * 86400.0, gt=0)
    publish_timeout_seconds: float = Field(default=2.0, gt=0)

    public_url: str | None = Field(default=None, description="Where people reach the API: what notifications link to")
    smtp_host: str | None = None
    smtp_port: int = 587
    smtp_username: str | None = None
    smtp_password: SecretStr | None = None
    smtp_starttls: bool = True
    smtp_from: str | None = Field(default=None, description="Who notifications by mail are from")

    tracing: bool = Field(default=False, description="Send traces by OTLP, also without an address in OTEL_*")
    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
