"""Counts statements without those of time limits."""

from collections.abc import Sequence

from historyapp.models.vendor import on_sqlite


def without_limits(issued: Sequence[str]) -> list[str]:
    """The statements, on PostgreSQL without those that begin, limit and end a block with a time limit.

    There, such a block is a transaction, in a test a savepoint. On SQLite it issues no statement of its own.
    """
    if on_sqlite():
        return list(issued)
    return [sql for sql in issued if not sql.startswith(("SAVEPOINT", "SET LOCAL", "RELEASE SAVEPOINT"))]
