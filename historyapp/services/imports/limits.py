"""Cuts the header of a transcript's session to the limits of the API, before a transaction begins."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from historyapp.core.importers.base import SessionStart, Skipped
from historyapp.core.session_metadata import MAX_METADATA, fitting_metadata
from historyapp.core.text import clean, preview
from historyapp.services.imports.reports import FileReport

_MAX_NAMED = 5
"""The maximum number of fields that a report names."""
_MAX_NAME = 50
"""The maximum number of characters of a name in a report."""
MAX_TAGS = 50
"""The API has the same limit, because lists show all tags of each session."""


def within_limits(start: SessionStart) -> tuple[SessionStart, Mapping[str, int]]:
    """The header with text that databases accept, and the sizes of the metadata that is left out, by name."""
    metadata, left_out = fitting_metadata(start.metadata)
    tags = (preview(tag, 100) for tag in start.tags if tag.strip())
    limited = replace(
        start,
        title=clean(start.title[:300]),
        agent=clean(start.agent[:200]),
        model=clean(start.model[:200]),
        tags=tuple(islice(tags, MAX_TAGS)),
        metadata=metadata,
    )
    return limited, left_out


def report_left_out(report: FileReport, left_out: Mapping[str, int]) -> None:
    """Reports the metadata that :func:`within_limits` leaves out, the largest first."""
    if not left_out:
        return
    named = [f"{name[:_MAX_NAME]!r} ({size:,} characters)" for name, size in left_out.items()][:_MAX_NAMED]
    more = f" and {len(left_out) - _MAX_NAMED:,} more" if len(left_out) > _MAX_NAMED else ""
    limit = f"at most {MAX_METADATA:,} characters of JSON are imported"
    report.skip(Skipped(1, f"the session's metadata: {', '.join(named)}{more} left out: {limit}"))
