"""Sums of columns that do not overflow."""

from typing import Any

from django.db.models import Sum


class LargeSum(Sum):
    """As ``Sum``, for columns whose values agents report. 0 without rows.

    SQLite's ``SUM`` refuses a sum of more than 64 bits, and would break every page that shows it. Its
    ``TOTAL`` adds doubles, which are exact up to 2**53. PostgreSQL's ``SUM`` has no limit.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sqlite(compiler, connection, function="TOTAL", **context)
