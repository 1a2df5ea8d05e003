"""Entries in requests, in responses and in the OpenAPI document.

The core's models define the kinds of entries. This module adds the fields that every kind has in a request
(``metadata``, ``created_at``) and in a response.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, create_model

from historyapp.api.fields import Metadata, Moment, RequestBody, iso
from historyapp.core.entries import BODIES, BODY, Body, EntryDraft, Rewind
from historyapp.models import Entry
from historyapp.wire import examples
from historyapp.wire.entries import EntryOut, EntryPage


class Envelope(RequestBody):
    """The fields of an entry in a request in addition to the fields of its kind."""

    metadata: Metadata = Field(
        default_factory=dict,
        description="Any fields: source, latency, provider, `usage`, `cost` (US dollars) …",
    )
    created_at: Moment | None = Field(default=None, description="When it happened; null: now.")


class LoggedEntry(EntryOut):
    """An entry whose kind is known, with no other fields."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={})


def _variants(suffix: str, base: type[BaseModel], kinds: Iterable[type[Body]], example: Any) -> Any:
    """One union of the kinds, each with the fields of ``base``, distinguished by ``kind``."""
    models = []
    for kind in kinds:
        tag: Any = (kind.model_fields["kind"].annotation, ...)
        models.append(create_model(f"{kind.__name__}{suffix}", __base__=(base, kind), kind=tag))
    return Annotated[reduce(or_, models), Field(discriminator="kind", examples=[example])]


_ENVELOPE = tuple(Envelope.model_fields)


_validate = BODY.validator.validate_python
"""Called for each entry of an append. The adapter's own method takes 10 % longer."""


def _parse_draft(value: Any) -> EntryDraft:
    if not isinstance(value, dict) or value.keys().isdisjoint(_ENVELOPE):
        return EntryDraft(_validate(value))
    fields = dict(value)
    values = {name: fields.pop(name) for name in _ENVELOPE if name in fields}
    envelope = Envelope.model_validate(values)
    return EntryDraft(_validate(fields), envelope.created_at, envelope.metadata)


_APPENDABLE = [body for body in BODIES if body is not Rewind]
EntryIn = Annotated[
    EntryDraft,
    PlainValidator(
        _parse_draft, json_schema_input_type=_variants("In", Envelope, _APPENDABLE, examples.INPUT)
    ),
]
"""An entry of a request, parsed to a draft for the log."""

AnyEntry = _variants("Entry", LoggedEntry, BODIES, examples.ENTRY)
"""An entry of a response, for the OpenAPI document: :class:`EntryOut` with the fields of each kind."""


class AnyEntryPage(EntryPage):
    items: list[AnyEntry]  # type: ignore[valid-type]


def entry_json(entry: Entry, *, live: bool) -> dict[str, Any]:
    """The row as :class:`EntryOut`.

    A plain dictionary, because lists of entries are read often and their bodies are stored as JSON values:
    validating them again would take longer than writing them. Fields with their default are left out.
    """
    return {
        "position": entry.position,
        "kind": entry.kind,
        **entry.body,
        "created_at": iso(entry.created_at),
        "metadata": entry.metadata,
        "tokens": entry.tokens,
        "live": live,
    }
