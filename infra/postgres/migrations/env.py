"""Alembic's entry: runs on the connection that `signoff.infra.postgres.migrate` hands over, and on no other."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="schema_version",
    version_table_schema="signoff",
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
