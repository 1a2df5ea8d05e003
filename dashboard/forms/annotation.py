"""The form for the tags, the note and the score of a session."""

from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict

from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models import Session
from historyapp.services.annotations import current_values

_MAX_NUMBER = 40
"""The maximum number of characters of a number; further ones are dropped."""


@dataclass(frozen=True, slots=True)
class AnnotationForm:
    """The fields of the form. Numbers are strings, as in HTML forms; an empty string is no score."""

    tags: list[str]
    """The session's tags, each with a checkbox that keeps it."""
    dropped: list[str]
    """Tags whose checkbox is cleared."""
    new_tags: str
    """Tags to add, separated by commas."""
    note: str
    score: str
    score_name: str
    read: dict[str, str]
    """Note, score and name of the score as they were when the form was made."""

    @property
    def added(self) -> list[str]:
        return [tag for tag in (" ".join(part.split()) for part in self.new_tags.split(",")) if tag]

    @property
    def _written(self) -> dict[str, str]:
        return {"note": self.note, "score": self.score, "score_name": self.score_name}

    def changes(self) -> dict[str, Any]:
        """The changes for :func:`historyapp.services.sessions.change_session`: only the edited fields.

        Raises:
            Invalid: when the score is not a number.
        """
        edited = {name: value for name, value in self._written.items() if value != self.read[name]}
        changes: dict[str, Any] = _values(edited)
        if self.added:
            changes["add_tags"] = self.added
        if self.dropped:
            changes["remove_tags"] = self.dropped
        return changes

    def expected(self) -> dict[str, Any]:
        """The replaced values as they were when the form was rendered."""
        return _values(
            {name: self.read[name] for name, text in self._written.items() if text != self.read[name]}
        )


def form_of(session: Session) -> AnnotationForm:
    """The form with the session's values."""
    read = _texts(session)
    return AnnotationForm(session.tags, [], "", **read, read=read)


def read_annotation(post: QueryDict) -> AnnotationForm:
    """The submitted form."""
    texts = {name: _text(post.get(name, "")) for name in ("note", "score", "score_name")}
    read = {name: _text(post.get(f"read_{name}", "")) for name in texts}
    tags, kept_tags = post.getlist("shown_tag"), set(post.getlist("tag"))
    dropped = [tag for tag in tags if tag not in kept_tags]
    return AnnotationForm(tags, dropped, _text(post.get("new_tags", "")), **texts, read=read)


def after_conflict(form: AnnotationForm, session: Session) -> AnnotationForm:
    """The same texts with the session's current values as expected ones, because the person has now seen
    these.
    """
    dropped = [tag for tag in form.dropped if tag in session.tags]
    return replace(form, tags=session.tags, dropped=dropped, read=_texts(session))


def _texts(session: Session) -> dict[str, str]:
    values = current_values(session)
    score = "" if values["score"] is None else repr(float(values["score"])).removesuffix(".0")
    return {"note": values["note"], "score": score, "score_name": values["score_name"]}


def _text(value: str) -> str:
    return clean(value).replace("\r\n", "\n").strip()


def _values(texts: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = dict(texts)
    if (score := texts.get("score")) is not None:
        try:
            values["score"] = float(score[:_MAX_NUMBER].replace(",", ".")) if score else None
        except ValueError:
            raise Invalid("The score is not a number. Enter a number such as 4 or 0.75.") from None
    return values
