"""Compares two runs."""

from historyapp.client.api_call import ApiCall, Id, Pages, get, pages
from historyapp.wire.base import Page
from historyapp.wire.run_comparisons import RunComparisonOut, StepPairOut


def compare_sessions(a: Id, b: Id, *, limit: int | None = None) -> ApiCall[RunComparisonOut]:
    """The shared part of two runs, the first difference, their totals, and their first steps side by side.

    Args:
        a: the id of a session, ``ID@POSITION`` for a session as it was, or ``ID/takes/POSITION`` for a take.
        b: the other run, in the same form.
        limit: the number of step pairs in the response.
    """
    return get("/compare", RunComparisonOut, a=str(a), b=str(b), limit=limit)


def compared_steps(a: Id, b: Id, *, limit: int | None = None) -> Pages[StepPairOut]:
    """All steps after the common part side by side; arguments as for ``compare_sessions``."""
    return pages("/compare/pairs", Page[StepPairOut], a=str(a), b=str(b), limit=limit)
