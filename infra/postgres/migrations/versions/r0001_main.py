"""The store of the main job."""

from importlib.resources import files

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    sql = files("signoff.infra.postgres.migrations").joinpath("0001_main.sql").read_text()
    # The driver's own connection: with no parameters it takes the text as it is, percent signs and all.
    op.get_bind().connection.cursor().execute(sql)
