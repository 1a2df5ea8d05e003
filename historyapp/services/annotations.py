"""Changes of a session's tags, note and score, which several people and agents may make at the same time.

Adding or removing one tag leaves the other tags alone, so such changes never undo each other. A caller that
replaces a note, a score or all tags can send the values that it read. The change is refused if they differ
now.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid
from historyapp.core.importers.messages import moment
from historyapp.core.json import text
from historyapp.core.session_metadata import MAX_TAG, MAX_TAGS
from historyapp.core.text import clean
from historyapp.models import Annotation, Session
from historyapp.models.annotations import (
    MAX_NOTE,
    MAX_SCORE,
    MAX_SCORE_NAME,
    annotation_of,
)

ANNOTATION_FIELDS = ("note", "score", "score_name")
_LABELS = {"tags": "tags", "note": "note", "score": "score", "score_name": "name of the score"}


def current_values(session: Session) -> dict[str, Any]:
    """What a request can expect to find: tags, note, score and its name."""
    annotation = annotation_of(session)
    return {"tags": session.tags, **{name: getattr(annotation, name) for name in ANNOTATION_FIELDS}}


def check_expected(session: Session, expected: Mapping[str, Any]) -> None:
    """Checks that nobody has changed the values that a request replaces.

    Args:
        expected: the values that the caller has read, or some of them. The order of tags does not matter.

    Raises:
        Conflict: when a value has changed. The error contains the current values.
    """
    current = current_values(session)
    changed = [name for name, value in expected.items() if _comparable(value) != _comparable(current[name])]
    if changed:
        current_of_changed = {name: current[name] for name in changed}
        fields = " and the ".join(_LABELS[name] for name in changed)
        raise Conflict(
            f"Somebody else has changed the {fields} of this session since you read it. Read the session "
            "again, then repeat the change with the current values in `expected`.",
            current=current_of_changed,
        )


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return _normalised(value)
    return sorted(set(value)) if isinstance(value, (list, tuple)) else value


def _normalised(value: str) -> str:
    """The text as it is stored: with LF line ends, because browsers send CRLF in forms."""
    return clean(value).replace("\r\n", "\n").strip()


def with_tags(tags: Sequence[str], *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
    """The tags after adding tags at the end and removing others.

    Raises:
        Invalid: when a new tag is empty, too long or has control characters, or there are too many tags.
    """
    for tag in add:
        check_tag(tag)
    removed = set(remove)
    new_tags = list(dict.fromkeys([tag for tag in [*tags, *add] if tag not in removed]))
    if len(new_tags) > max(MAX_TAGS, len(tags)):
        raise Invalid(
            f"A session has at most {MAX_TAGS} tags; this one would have {len(new_tags)}. Remove some first."
        )
    return new_tags


def check_tag(tag: str) -> None:
    """Raises ``Invalid`` when a session cannot have this tag."""
    if not tag.strip():
        raise Invalid("A tag has at least one character that is not a space.")
    if len(tag) > MAX_TAG:
        raise Invalid(f"A tag has at most {MAX_TAG} characters; this one has {len(tag):,}.")
    if any(character < " " for character in tag) or clean(tag) != tag:
        raise Invalid("A tag is one line of text, without control characters.")


def annotate(session: Session, changes: Mapping[str, Any], actor: str) -> None:
    """Changes the note or the score within the caller's transaction. The session must be locked.

    Args:
        changes: any of ``note`` (empty removes it), ``score`` (None removes it) and ``score_name``.

    Raises:
        Invalid: when a text is too long, or the score is not a number that can be stored.
    """
    if not changes:
        return
    _check_limits(changes)
    annotation, now = annotation_of(session), timezone.now()
    if "note" in changes:
        annotation.note = _normalised(changes["note"])
        annotation.noted_by, annotation.noted_at = (actor[:200], now) if annotation.note else ("", None)
    if "score" in changes or "score_name" in changes:
        annotation.score = changes.get("score", annotation.score)
        name = _normalised(changes.get("score_name", annotation.score_name))
        is_scored = annotation.score is not None
        annotation.score_name = name if is_scored else ""
        annotation.scored_by, annotation.scored_at = (actor[:200], now) if is_scored else ("", None)
    annotation.save()
    session.annotation = annotation


_TIME_FIELDS = ("noted_at", "scored_at")
_EXPORTED_FIELDS = (*ANNOTATION_FIELDS, "noted_by", "scored_by", *_TIME_FIELDS)


def dump_annotation(session: Session) -> dict[str, Any]:
    """Note and score as JSON values for an export; empty if the session has neither."""
    annotation: Annotation | None = getattr(session, "annotation", None)
    if annotation is None:
        return {}
    values = {name: getattr(annotation, name) for name in _EXPORTED_FIELDS}
    times = {name: value.isoformat() for name, value in values.items() if isinstance(value, datetime)}
    return values | times


def import_annotation(session: Session, annotation: Mapping[str, Any]) -> None:
    """Stores a new session's note and score from a file. Invalid values are ignored."""
    note = _imported(annotation, "note", MAX_NOTE)
    score = annotation.get("score")
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not _is_storable(score):
        score = None
    if not note and score is None:
        return
    noted_at, scored_at = (
        moment(annotation.get(name), UTC) if annotation.get(name) else None for name in _TIME_FIELDS
    )
    Annotation.objects.create(
        session=session,
        note=note,
        noted_by=clean(text(annotation.get("noted_by"))[:200]) if note else "",
        noted_at=noted_at if note else None,
        score=score,
        score_name="" if score is None else _imported(annotation, "score_name", MAX_SCORE_NAME),
        scored_by="" if score is None else clean(text(annotation.get("scored_by"))[:200]),
        scored_at=None if score is None else scored_at,
    )


def _imported(annotation: Mapping[str, Any], name: str, length: int) -> str:
    """A text of an annotation in a file. Twice the length is read, because normalising can halve a text."""
    return _normalised(text(annotation.get(name))[: 2 * length])[:length]


def _is_storable(score: float) -> bool:
    return abs(score) <= MAX_SCORE and math.isfinite(score)


def _check_limits(changes: Mapping[str, Any]) -> None:
    note, score, name = changes.get("note", ""), changes.get("score"), changes.get("score_name", "")
    if len(note) > MAX_NOTE:
        raise Invalid(f"A session's note has at most {MAX_NOTE:,} characters; this one has {len(note):,}.")
    if len(name) > MAX_SCORE_NAME:
        raise Invalid(
            f"The name of a score has at most {MAX_SCORE_NAME} characters; this one has {len(name):,}."
        )
    if score is not None and not _is_storable(score):
        raise Invalid(f"A score is a number between -{MAX_SCORE:,} and {MAX_SCORE:,}.")
