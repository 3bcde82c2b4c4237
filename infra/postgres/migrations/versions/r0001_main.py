"""The store of the main job."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0001_main.sql")
