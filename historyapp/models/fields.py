"""Column types of our own."""

import json
from typing import TYPE_CHECKING, Any

from django.db import models

from historyapp.core.text import dump_json

if TYPE_CHECKING:
    AnyText = models.TextField[Any, Any]
else:
    AnyText = models.TextField


class JSONText(AnyText):
    """JSON kept as ASCII text: key order, NUL and lone surrogates survive, unlike in PostgreSQL's jsonb."""

    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        return None if value is None else json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else dump_json(value)

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        return self.get_prep_value(self.value_from_object(obj)) or ""
