"""Changes of a session's tags, note and score, which several people and agents may make at the same time.

Adding and removing a tag says nothing of the other tags, so no such change undoes another one. Who replaces
a note, a score or all tags can say what they were when they read them, and is refused where they differ now.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid
from historyapp.core.text import clean
from historyapp.models import Session
from historyapp.models.annotations import (
    HIGHEST_SCORE,
    LONGEST_NOTE,
    LONGEST_SCORE_NAME,
    LONGEST_TAG,
    MOST_TAGS,
    annotation_of,
)

ANNOTATION_FIELDS = ("note", "score", "score_name")
_WORDS = {"tags": "tags", "note": "note", "score": "score", "score_name": "name of the score"}


def current_values(session: Session) -> dict[str, Any]:
    """What a request can expect to find: tags, note, score and its name."""
    annotation = annotation_of(session)
    return {"tags": session.tags, **{name: getattr(annotation, name) for name in ANNOTATION_FIELDS}}


def check_expected(session: Session, expected: Mapping[str, Any]) -> None:
    """Checks that nobody has changed what a request replaces.

    Args:
        expected: some of the values as whoever asks has read them. The order of tags does not matter.

    Raises:
        Conflict: when one is another now. The error has the current values.
    """
    current = current_values(session)
    changed = [name for name, value in expected.items() if _comparable(value) != _comparable(current[name])]
    if changed:
        found = {name: current[name] for name in changed}
        what = " and the ".join(_WORDS[name] for name in changed)
        raise Conflict(
            f"Somebody else has changed the {what} of this session meanwhile. Read the session again, "
            "then repeat the change with the current values in expected.",
            current=found,
        )


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return _stored(value)
    return sorted(set(value)) if isinstance(value, (list, tuple)) else value


def _stored(text: str) -> str:
    """The text as it is stored: browsers end lines in forms by two characters."""
    return clean(text).replace("\r\n", "\n").strip()


def with_tags(tags: Sequence[str], *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
    """The tags with some added at the end, and others removed.

    Raises:
        Invalid: when a new tag is empty, too long or has control characters, or there are too many tags.
    """
    for tag in add:
        check_tag(tag)
    gone = set(remove)
    found = list(dict.fromkeys([tag for tag in [*tags, *add] if tag not in gone]))
    if len(found) > max(MOST_TAGS, len(tags)):
        raise Invalid(
            f"A session has at most {MOST_TAGS} tags; this one would have {len(found)}. Remove some first."
        )
    return found


def check_tag(tag: str) -> None:
    """Raises ``Invalid`` when a session cannot have this tag."""
    if not tag.strip():
        raise Invalid("A tag has at least one character that is not a space.")
    if len(tag) > LONGEST_TAG:
        raise Invalid(f"A tag has at most {LONGEST_TAG} characters; this one has {len(tag):,}.")
    if any(character < " " for character in tag) or clean(tag) != tag:
        raise Invalid("A tag is one line of text, without control characters.")


def annotate(session: Session, changes: Mapping[str, Any], actor: str) -> None:
    """Changes the note or the score within the caller's transaction, once the session is locked.

    Args:
        changes: any of ``note`` (empty removes it), ``score`` (None removes it) and ``score_name``.

    Raises:
        Invalid: when a text is too long, or the score is no number that can be stored.
    """
    if not changes:
        return
    _check(changes)
    annotation, now = annotation_of(session), timezone.now()
    if "note" in changes:
        annotation.note = _stored(changes["note"])
        annotation.noted_by, annotation.noted_at = (actor[:200], now) if annotation.note else ("", None)
    if "score" in changes or "score_name" in changes:
        annotation.score = changes.get("score", annotation.score)
        name = _stored(changes.get("score_name", annotation.score_name))
        is_scored = annotation.score is not None
        annotation.score_name = name if is_scored else ""
        annotation.scored_by, annotation.scored_at = (actor[:200], now) if is_scored else ("", None)
    annotation.save()
    session.annotation = annotation


def _check(changes: Mapping[str, Any]) -> None:
    note, score, name = changes.get("note", ""), changes.get("score"), changes.get("score_name", "")
    if len(note) > LONGEST_NOTE:
        raise Invalid(
            f"A session's note has at most {LONGEST_NOTE:,} characters; this one has {len(note):,}."
        )
    if len(name) > LONGEST_SCORE_NAME:
        raise Invalid(
            f"The name of a score has at most {LONGEST_SCORE_NAME} characters; this one has {len(name):,}."
        )
    if score is not None and not (math.isfinite(score) and abs(score) <= HIGHEST_SCORE):
        raise Invalid(f"A score is a number between -{HIGHEST_SCORE:,} and {HIGHEST_SCORE:,}.")
