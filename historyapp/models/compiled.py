"""Queries that are built and compiled once in a process.

Django takes ten times as long to build and compile a query with several joins as the database to run it.
"""

from collections.abc import Callable, Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model, QuerySet
from django.db.models.query import ModelIterable
from django.db.models.sql.compiler import SQLCompiler
from django.db.transaction import TransactionManagementError

from historyapp.models.fields import uuid_value

M = TypeVar("M", bound=Model)


class CompiledQuery(Generic[M]):
    """A query whose form is always the same. Each call of :meth:`rows` runs it with other values.

    Args:
        build: makes the query from the examples. It runs once for each kind of database.
        examples: a UUID or an integer for each argument of ``build``. The query must contain none of them
            as a constant.
    """

    def __init__(self, build: Callable[..., "QuerySet[M, Any]"], *examples: UUID | int) -> None:
        self._build, self._examples = build, examples
        self._compiled: dict[str, tuple[SQLCompiler, str, list[tuple[int | None, Any]]]] = {}

    def rows(self, *values: UUID | int) -> list[M]:
        """The model instances. ``values``: one for each example, in the same order."""
        compiler = self._compiler_with(values)
        query = SimpleNamespace(get_compiler=lambda **_: compiler)
        rows: Any = SimpleNamespace(db=DEFAULT_DB_ALIAS, query=query, _known_related_objects={})
        return list(ModelIterable(rows))

    def tuples(self, *values: UUID | int) -> list[tuple[Any, ...]]:
        """The rows of a query with ``values_list``."""
        return list(self._compiler_with(values).results_iter(tuple_expected=True))

    def _compiler_with(self, values: Sequence[UUID | int]) -> Any:
        connection = connections[DEFAULT_DB_ALIAS]
        if connection.vendor not in self._compiled:
            self._compiled[connection.vendor] = self._compile()
        compiled, statement, parameters = self._compiled[connection.vendor]
        locks = compiled.query.select_for_update and connection.features.has_select_for_update
        if locks and connection.get_autocommit():
            raise TransactionManagementError("select_for_update cannot be used outside of a transaction.")
        given = [_driver_value(value) for value in values]
        filled = [constant if place is None else given[place] for place, constant in parameters]
        compiler: Any = copy(compiled)
        compiler.connection = connection
        compiler.as_sql = lambda: (statement, filled)
        return compiler

    def _compile(self) -> tuple[SQLCompiler, str, list[tuple[int | None, Any]]]:
        """The compiler, its statement, and for each parameter its place in the examples or its constant."""
        compiler = self._build(*self._examples).query.get_compiler(DEFAULT_DB_ALIAS)
        statement, parameters = compiler.as_sql()
        places = {_driver_value(example): place for place, example in enumerate(self._examples)}
        found = [(places.get(parameter), parameter) for parameter in parameters]
        assert {place for place, _ in found} >= set(places.values()), statement
        vars(compiler)["connection"] = None  # otherwise that of this thread would stay open after its end
        return compiler, statement, found


def _driver_value(value: UUID | int) -> Any:
    return uuid_value(value) if isinstance(value, UUID) else value
