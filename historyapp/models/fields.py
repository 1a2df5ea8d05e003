"""Column types of our own."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import models

from historyapp.core.text import dump_json, fold, load_dumped

if TYPE_CHECKING:
    AnyText = models.TextField[Any, Any]
else:
    AnyText = models.TextField


class JSONText(AnyText):
    """JSON kept as ASCII text: key order, NUL and lone surrogates survive, unlike in PostgreSQL's jsonb."""

    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        return None if value is None else load_dumped(value)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else dump_json(value)

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        return self.get_prep_value(self.value_from_object(obj)) or ""


class FoldedText(AnyText):
    """Other text columns of the row in one, without case, for searching: made anew whenever they are saved.

    Databases differ in what they take for the same letter in another case; Python does not.
    """

    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def __init__(self, *args: Any, of: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.of = tuple(of)

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, args, options = super().deconstruct()
        return name, path, args, {**options, "of": self.of}

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        folded = fold("\n".join(getattr(model_instance, name) for name in self.of))
        setattr(model_instance, self.attname, folded)
        return folded
