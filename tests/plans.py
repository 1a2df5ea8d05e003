"""How a database reaches the rows of the statements that a block issues."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

_EXPLAINED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_WHOLE = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
"""The ways in which PostgreSQL reads a whole table."""
_SCANS = {"Index Scan", "Index Only Scan", "Bitmap Index Scan", "Seq Scan", "Tid Scan", "Sample Scan"}


@dataclass(frozen=True, slots=True)
class Access:
    """One way in which a statement reaches the rows of a table."""

    table: str
    """With its number for a partition: ``historyapp_entry_p03``."""
    by: str
    """The columns by which an index finds the rows; empty when all of the table or of the index is read."""
    index: str = ""


@dataclass
class Statement:
    sql: str
    values: Sequence[Any]
    accesses: list[Access] = field(default_factory=list)


@contextmanager
def statements() -> Iterator[list[Statement]]:
    """The statements that the block issues, each once, with their plans once the block has ended."""
    by_text: dict[str, Statement] = {}

    def note(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        if _EXPLAINED.match(sql):
            by_text.setdefault(sql, Statement(sql, (values[0] if many else values) or ()))
        return execute(sql, values, many, context)

    noted: list[Statement] = []
    with connection.execute_wrapper(note):
        yield noted
    explain = _on_sqlite if connection.vendor == "sqlite" else _on_postgresql
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # small tables are read completely, even if they have indexes
            for way in _WHOLE:
                cursor.execute(f"SET LOCAL {way} = off")
        for statement in by_text.values():
            statement.accesses = list(explain(cursor, statement))
        if connection.vendor == "postgresql":  # a test's transaction continues
            for way in _WHOLE:
                cursor.execute(f"SET LOCAL {way} = on")
    noted += by_text.values()


def forget_statistics() -> None:
    """Makes PostgreSQL's planner see all tables as new, until the transaction ends.

    If earlier tests filled and emptied a table, it remembers that a few pages hold no rows. Then it reads the
    table as a whole.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_clear_relation_stats('public', relname) FROM pg_class "
            "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'i', 'I')"
        )
        cursor.execute(
            "DELETE FROM pg_statistic USING pg_class "
            "WHERE pg_class.oid = starelid AND relnamespace = 'public'::regnamespace"
        )


def _on_sqlite(cursor: Any, statement: Statement) -> Iterator[Access]:
    cursor.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.values)
    names = _aliases(statement.sql)
    for *_, detail in cursor.fetchall():
        how = re.match(r"(?:SCAN|SEARCH) (\w+)(?: USING.*? INDEX (\w+))?(?:.*?\((.*)\))?", detail)
        is_found = how and how[3] == "rowid=?" and ".rowid = found.row" in statement.sql
        if how and how[1] in names and not is_found:  # the inner query of ``long_rows`` has found the row
            yield Access(names[how[1]], how[3] or "", how[2] or "")


def _aliases(sql: str) -> dict[str, str]:
    """The tables by the names that the statement gives them: Django numbers the second use of one."""
    pairs = re.findall(r'"?\b((?:historyapp|auth|django)_\w+)"?(?: (?:AS )?"?([TUVW]\d+)"?)?', sql)
    return {alias or table: table for table, alias in pairs}


def _on_postgresql(cursor: Any, statement: Statement) -> Iterator[Access]:
    cursor.execute(f"EXPLAIN (FORMAT JSON) {statement.sql}", statement.values)
    ((plan,),) = cursor.fetchall()
    plans = json.loads(plan) if isinstance(plan, str) else plan
    for each in plans:
        yield from _accesses(each["Plan"], "")


def _accesses(node: dict[str, Any], table: str) -> Iterator[Access]:
    table = node.get("Relation Name", table)
    if node["Node Type"] in _SCANS:
        yield Access(table, node.get("Index Cond", ""), node.get("Index Name", ""))
    for below in node.get("Plans", ()):
        yield from _accesses(below, table)


def whole_indexes() -> dict[str, str]:
    """The names of the indexes of partitions, each with that of the index of the whole table."""
    if connection.vendor == "sqlite":
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT part.relname, whole.relname FROM pg_inherits "
            "JOIN pg_class part ON part.oid = inhrelid AND part.relkind = 'i' "
            "JOIN pg_class whole ON whole.oid = inhparent"
        )
        return dict(cursor.fetchall())
