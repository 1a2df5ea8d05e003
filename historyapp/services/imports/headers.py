"""Limits what the parser passes on: session headers, rewinds, summaries, notes, results and skipped records.

The storing process keeps the headers of all sessions of a file and serves requests meanwhile. Unpacking ten
million values, or a text with ten million lone surrogates, would stop all its threads for seconds. So the
parser process applies these limits, and replaces lone surrogates in long texts.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from historyapp.core.entries import EntryDraft, Rewind, ToolResults
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import (
    MAX_SESSION_ID,
    AddNote,
    AddSummary,
    Append,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
)
from historyapp.core.json import dump_json, is_longer, load_dumped
from historyapp.core.session_metadata import MAX_METADATA, MAX_TAG, MAX_TAGS, MAX_TITLE, fitting_metadata
from historyapp.core.text import clean, preview

MAX_SUMMARY = 1_000_000
"""Characters of a summary. The API accepts 100,000."""
MAX_KEY_POINTS, MAX_KEY_POINT = 1_000, 10_000
"""Key points of one summary, and characters of each. The API accepts 100 of 2,000 characters."""
MAX_REASON = 10_000
"""Characters of the reason of a rewind. The API accepts 2,000."""
MAX_NOTE = 10_000
"""Characters of a note. The API has the same limit."""
MAX_RESULTS = 10_000
"""Results of one entry, which are paired with calls within its transaction. The API has the same limit."""
_MAX_SKIP_REASON = 300
"""Characters of the reason why a record is skipped, which may name a field or an id of the record."""
_MAX_INSTRUCTION = 1_000
"""Characters of a ``summary_instruction``, which is not imported."""
_MAX_NAMED = 5
"""The maximum number of fields that a report names."""
_MAX_NAME = 50
"""The maximum number of characters of a name in a report."""
_VALUES = ("settings", "metadata", "annotation")
"""The fields of a header that hold JSON values."""
_LIMIT = f"at most {MAX_METADATA:,} characters of JSON are imported"


def within_limits(operation: Operation) -> Operation:
    """The operation with texts that databases accept, and without values that are too large.

    Raises:
        UnreadableTranscript: if the id of a session or the metadata of a rewind is too long, or an entry has
            too many results.
    """
    match operation:
        case Append(draft=EntryDraft(body=ToolResults(results=results))) if len(results) > MAX_RESULTS:
            raise UnreadableTranscript(
                f"An entry has {len(results):,} results. At most {MAX_RESULTS:,} are imported: split it into "
                "several entries."
            )
        case SessionStart(session=id):
            if len(id) > MAX_SESSION_ID:
                raise UnreadableTranscript(
                    f"The id of a session has {len(id):,} characters, and at most {MAX_SESSION_ID} are "
                    f"supported. It begins with {preview(id, _MAX_NAME)!r}. Shorten it, then import the file "
                    "again."
                )
            return _with_dumped_values(limited_start(operation))
        case RewindTo():
            return _limited_rewind(operation)
        case AddSummary():
            return _limited_summary(operation)
        case AddNote(text=text, actor=actor):
            return replace(operation, text=text[:MAX_NOTE], actor=actor[:200])
        case Skipped(reason=reason) if len(reason) > _MAX_SKIP_REASON:
            return replace(operation, reason=preview(reason, _MAX_SKIP_REASON))
    return operation


def _limited_summary(summary: AddSummary) -> AddSummary:
    return replace(
        summary,
        text=clean(summary.text[:MAX_SUMMARY]),
        strategy=summary.strategy[:50],
        model=summary.model[:200],
        key_points=tuple(clean(point[:MAX_KEY_POINT]) for point in summary.key_points[:MAX_KEY_POINTS]),
    )


def _limited_rewind(rewind: RewindTo) -> RewindTo:
    draft = rewind.draft
    if draft is not None:
        if is_longer(dict(draft.metadata), MAX_METADATA):
            raise UnreadableTranscript(
                f"The metadata of a rewind has more than {MAX_METADATA:,} characters of JSON. Shorten it."
            )
        # The spans are computed again from the stored session.
        draft = draft._replace(body=Rewind(to_position=rewind.to_position, spans=()))
    # A transaction writes several rewinds, and compresses their texts.
    return replace(rewind, reason=rewind.reason[:MAX_REASON], actor=rewind.actor[:200], draft=draft)


def limited_start(start: SessionStart) -> SessionStart:
    """The header within the limits. Its ``left_out`` names what is left out."""
    metadata, sizes = fitting_metadata(start.metadata)
    settings, annotation = dict(start.settings), dict(start.annotation)
    if isinstance(instruction := settings.get("summary_instruction"), str):
        settings["summary_instruction"] = instruction[:_MAX_INSTRUCTION]
    tags = (preview(tag, MAX_TAG) for tag in start.tags if tag.strip())
    left_out = [_metadata_report(sizes)] if sizes else []
    for name, values in (("settings", settings), ("note and score", annotation)):
        if is_longer(values, MAX_METADATA):
            values.clear()
            left_out.append(f"the session's {name}: left out: {_LIMIT}")
    return replace(
        start,
        spawned_by=stored_id(start.spawned_by or "") or None,
        partial_copy=stored_id(start.partial_copy or "") or None,
        whole_copy=stored_id(start.whole_copy or "") or None,
        title=clean(start.title[:MAX_TITLE]),
        agent=clean(start.agent[:200]),
        model=clean(start.model[:200]),
        tags=tuple(islice(tags, MAX_TAGS)),
        settings=settings,
        metadata=metadata,
        annotation=annotation,
        status=start.status[:_MAX_NAME],
        left_out=(*start.left_out, *left_out),
    )


def _with_dumped_values(start: SessionStart) -> SessionStart:
    values = {name: value for name in _VALUES if (value := getattr(start, name))}
    emptied: dict[str, Any] = {name: {} for name in values}
    return replace(start, **emptied, dumped=dump_json(values)) if values else start


def with_values(start: SessionStart) -> SessionStart:
    """The header with the values that :func:`within_limits` has dumped."""
    return replace(start, **load_dumped(start.dumped), dumped="") if start.dumped else start


def stored_id(source_id: str) -> str:
    """The id of a session in the source, as the database stores it."""
    return clean(source_id[:MAX_SESSION_ID])


def _metadata_report(sizes: Mapping[str, int]) -> str:
    """Names the metadata that is left out, the largest first."""
    first = [
        (name[:_MAX_NAME], f"{size:,}" if size <= MAX_METADATA else f"more than {MAX_METADATA:,}")
        for name, size in islice(sizes.items(), _MAX_NAMED)
    ]
    named = ", ".join([f"{name!r} ({size} characters)" for name, size in first])
    more = f" and {len(sizes) - _MAX_NAMED:,} more" if len(sizes) > _MAX_NAMED else ""
    return f"the session's metadata: {named}{more} left out: {_LIMIT}"
