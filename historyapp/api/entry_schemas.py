"""Entries in the OpenAPI document, and reading one from a request.

The core's models are the only description of the kinds. Here each gains what an entry carries on its way in
(``metadata``, ``created_at``) and what the log adds on its way out.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, create_model

from historyapp.api.fields import Metadata, Moment, RequestBody, iso
from historyapp.core.entries import BODIES, BODY, Body, EntryDraft, Rewind
from historyapp.models import Entry
from historyapp.wire import examples

_APPENDED = [body for body in BODIES if body is not Rewind]
_ENVELOPE = ("metadata", "created_at")


def _require_kind(schema: dict[str, Any]) -> None:
    schema["required"] = ["kind", *schema.get("required", [])]


class _Envelope(RequestBody):
    """What an entry carries beside the fields of its kind."""

    model_config = ConfigDict(json_schema_extra=_require_kind)

    metadata: Metadata = Field(
        default_factory=dict, description="Free: source, latency, provider, `usage`, `cost` (US dollars) …"
    )
    created_at: Moment | None = Field(default=None, description="When it happened; null: now.")


class _Facts(BaseModel):
    """What the log adds to an entry."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_require_kind)

    position: int
    created_at: datetime
    metadata: dict[str, Any]
    tokens: int = Field(description="As a model would read it, by our own count.")
    live: bool = Field(description="False in a take: a part that a rewind cut off.")


def _variants(suffix: str, base: type[BaseModel], kinds: Iterable[type[Body]], example: Any) -> Any:
    """Each kind with the fields of ``base`` as one union, told apart by ``kind``."""
    models = [create_model(f"{kind.__name__}{suffix}", __base__=(base, kind)) for kind in kinds]
    return Annotated[reduce(or_, models), Field(discriminator="kind", examples=[example])]


def _draft(value: Any) -> EntryDraft:
    if not isinstance(value, dict) or value.keys().isdisjoint(_ENVELOPE):
        return EntryDraft(BODY.validate_python(value))
    envelope = _Envelope.model_validate({name: value[name] for name in _ENVELOPE if name in value})
    body = BODY.validate_python({name: field for name, field in value.items() if name not in _ENVELOPE})
    return EntryDraft(body, envelope.created_at, envelope.metadata)


EntryIn = Annotated[
    EntryDraft,
    PlainValidator(_draft, json_schema_input_type=_variants("In", _Envelope, _APPENDED, examples.INPUT)),
]
"""An entry as it comes in, already a draft for the log."""

EntryOut = _variants("Entry", _Facts, BODIES, examples.ENTRY)
"""An entry as it goes out, for the OpenAPI document."""


def entry_json(entry: Entry, *, live: bool) -> dict[str, Any]:
    """The row as :data:`EntryOut`. Fields that hold their default are left out, as they are in storage."""
    return {
        "position": entry.position,
        "kind": entry.kind,
        **entry.body,
        "created_at": iso(entry.created_at),
        "metadata": entry.metadata,
        "tokens": entry.tokens,
        "live": live,
    }
