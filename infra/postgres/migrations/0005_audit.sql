-- The audit: one row for each act, written by the database itself, and the seals that chain them.
SELECT;
