"""The newest context window that a lineage records: steps that an API client adds have none of their own."""

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

from historyapp.core.lineage import Lineage, Span
from historyapp.core.prices import is_same_model
from historyapp.core.usage import usage_of, window_in
from historyapp.models.sql import outputs_between

MAX_SESSIONS = 5
"""The session itself and the nearest ones that it was forked from."""
MAX_OUTPUTS = 50
"""The maximum number of outputs that are read at each end of a session's part. An imported session that is
continued has its window at the beginning."""
MAX_ENTRIES = 1_000
"""The maximum number of entries at each end among which outputs are looked for."""


def newest_window(lineage: Lineage, model: str, default_model: str) -> int:
    """The newest window of a model in tokens, as its agent recorded it; 0 if there is none.

    A window that is smaller than a billed input read before it is not believed.

    Args:
        default_model: the model of outputs that name none.
    """
    largest = 0
    for metadata in _outputs(lineage):
        named = metadata.get("model")
        output_model = named if isinstance(named, str) and named else default_model
        if not is_same_model(output_model, model):
            continue
        largest = max(largest, usage_of(metadata).input)
        if window := window_in(metadata):
            return window if window >= largest else 0
    return 0


def _outputs(lineage: Lineage) -> Iterator[dict[str, Any]]:
    """Metadata of live outputs: of each session the newest ones, then the oldest ones, newest first."""
    by_session = groupby(reversed(lineage.newest), key=lambda span: span.session)
    for session, group in islice(by_session, MAX_SESSIONS):
        spans = list(group)
        first, last = spans[-1].first, spans[0].last
        newest = Span(session, max(first, last - MAX_ENTRIES + 1), last)
        reached, count = last + 1, 0
        for position, metadata in outputs_between(newest, MAX_OUTPUTS, newest=True):
            reached, count = position, count + 1
            if any(span.first <= position <= span.last for span in spans):
                yield metadata
        if count < MAX_OUTPUTS:
            reached = newest.first
        # This query is made for short sessions too: the number of queries does not depend on the length.
        oldest = Span(session, first, max(first, min(reached - 1, first + MAX_ENTRIES - 1)))
        for position, metadata in reversed(list(outputs_between(oldest, MAX_OUTPUTS, newest=False))):
            if position < reached and any(span.first <= position <= span.last for span in spans):
                yield metadata
