"""Runs a migration's SQL file as it is."""

from importlib.resources import files

from alembic import op


def run_sql(name: str) -> None:
    """`name` is a file of this folder."""
    sql = files("signoff.infra.postgres.migrations").joinpath(name).read_text()
    # The driver's own connection: with no parameters it takes the text as it is, percent signs and all.
    op.get_bind().connection.cursor().execute(sql)
