"""The compactions of a history, as its entries tell, or in long histories its stored figures."""

from collections import Counter
from itertools import islice

from historyapp.core.json import load_dumped
from historyapp.core.overview.figures import COMPACTION, load_figures
from historyapp.core.overview.sizes import Compaction
from historyapp.models.entries import spans_between
from historyapp.models.fields import session_value, unpack
from historyapp.models.history import History
from historyapp.models.run_figures import FiguresCheckpoint
from historyapp.models.sql import fetch_all

MOST_READ = {"debug_log": 200, "model_input": 100}
"""Entries of each kind that one query reads."""
LONGEST = 20_000
"""Bytes of a longer entry are not read. Notes of compactions are short, and so are most summaries."""
MOST_SPANS = 60
_ROWS = (
    f"SELECT * FROM (SELECT kind, CASE WHEN LENGTH(body) < {LONGEST} THEN body ELSE '{{{{}}}}' END, totals"  # noqa: S608
    " FROM historyapp_entry WHERE session_id = %s AND position BETWEEN %s AND %s AND kind = '{kind}'"
    " ORDER BY position LIMIT {most}) AS {kind}"
)


def compactions_of(history: History) -> list[Compaction]:
    """Where the agent compacted its context, in order; without sizes where no stored figures were needed.

    One query in most histories. Where it cannot read all marks, stored figures tell of the first hundred, and
    the entries since are read, as many again.
    """
    steps, are_all = _steps_after(history, 0)
    if are_all:
        return [Compaction(step, 0, 0) for step in sorted(steps)]
    owners = history.session.owners(history.lineage)
    known = FiguresCheckpoint.objects.newest_in(history.lineage, owners, history.steps)
    found = {step: Compaction(step, 0, 0) for step in steps}
    if known:
        found |= {one.step: one for one in load_figures(known.state).sizes.compactions}
        for step in _steps_after(history, known.position - 1)[0]:
            found.setdefault(step, Compaction(step, 0, 0))
    return [found[step] for step in sorted(found)]


def _steps_after(history: History, position: int) -> tuple[set[int], bool]:
    """The steps that follow marks of a compaction after a position, and whether these are all."""
    spans = list(islice(spans_between(history.lineage, position), MOST_SPANS + 1))
    if not spans:
        return set(), True
    some = spans[:MOST_SPANS]
    values = [value for span in some for value in (session_value(span.session), span.first, span.last)]
    # The kinds are no parameters: SQLite would not use their indexes.
    queries = [_ROWS.format(kind=kind, most=most) for kind, most in MOST_READ.items() for _ in some]
    rows = fetch_all(" UNION ALL ".join(queries), values * len(MOST_READ))
    read = Counter(kind for kind, _, _ in rows)
    steps = {
        min(load_dumped(totals).get("steps", 0) + 1, history.steps)
        for kind, body, totals in rows
        if load_dumped(unpack(body)).get("channel" if kind == "model_input" else "category") == COMPACTION
    }
    return steps, len(spans) <= MOST_SPANS and all(read[kind] < most for kind, most in MOST_READ.items())
