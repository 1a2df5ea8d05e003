"""The conditions of a search on sessions, as conditions of the database."""

import re
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from historyapp.core.errors import Invalid
from historyapp.core.search_query import SessionCondition
from historyapp.core.usage import MICRO
from historyapp.models.notes import StepNote

_LOOKUPS = {"model": "model__icontains", "agent": "agent__icontains", "title": "title__icontains"}
_SHOWN = {"cost": "money", "tokens": "shown_tokens", "score": "annotation__score"}
"""The columns of figures, where they have another name: the figures that lists show."""
_ID_DIGITS = re.compile(r"[0-9a-f]{4,32}")
_OPERATORS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def session_condition(condition: SessionCondition) -> Q:
    """Whether a session meets a condition of a query."""
    name, value = condition.name, condition.value
    if name == "session":
        digits = value.lower().replace("-", "")
        if not _ID_DIGITS.fullmatch(digits):
            raise Invalid(f"session:{value} is not the id of a session, or at least its first four digits.")
        return Q(pk__range=(UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))))
    if name == "tag":
        return Q(tags_text__contains=f"\n{value}\n")
    if name == "note":
        notes = StepNote.objects.filter(session=OuterRef("pk")).exclude(text="")
        return Q(annotation__note__gt="") | Q(Exists(notes))
    if name in _LOOKUPS:
        return Q(**{_LOOKUPS[name]: value})
    number = float(value) * (MICRO if name == "cost" else 1)
    return Q(**{f"{_SHOWN.get(name, name)}__{_OPERATORS[condition.operator]}": min(number, 2.0**62)})
