"""PostgreSQL and Valkey without an installation: servers that live exactly as long as the process that starts them."""

from signoff.infra.embedded.home import default_state_folder
from signoff.infra.embedded.postgres import EmbeddedPostgres
from signoff.infra.embedded.valkey import EmbeddedValkey

__all__ = ["EmbeddedPostgres", "EmbeddedValkey", "default_state_folder"]
