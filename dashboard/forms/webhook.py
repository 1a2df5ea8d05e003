"""The form of a webhook: its address, and the events that it receives."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import QueryDict

from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models.webhooks import EVENTS


@dataclass(frozen=True, slots=True)
class WebhookForm:
    """The values of the fields."""

    url: str = ""
    description: str = ""
    events: Sequence[str] = ()
    """The checked events."""

    @classmethod
    def read(cls, form: QueryDict) -> "WebhookForm":
        events = [event for event in EVENTS if event in form.getlist("events")]
        description = clean(form.get("description", "")).strip()[:200]
        return cls(form.get("url", "").strip(), description, events)

    @property
    def chosen(self) -> Sequence[str]:
        """The events as a webhook stores them. If all are checked, this is an empty list, which includes
        events of later versions.

        Raises:
            Invalid: when none is checked.
        """
        if not self.events:
            raise Invalid("Choose at least one event.")
        return () if len(self.events) == len(EVENTS) else self.events
