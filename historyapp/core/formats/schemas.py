"""What is wrong with a JSON schema, before a provider says so.

Checked is what providers refuse a whole request for: the shape of the keywords that hold schemas, and
``type``, ``required`` and ``enum``. Source: JSON Schema 2020-12, meta-schemas "core", "applicator" and
"validation".
Keywords that are not known pass, as the standard has it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_TEXTS = ("description", "title", "pattern", "format", "$ref")
_ONE = (
    "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains",
    "not", "if", "then", "else",
)  # fmt: skip
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def schema_fault(schema: Any) -> str | None:
    """The first fault, with the path to it; None when it is a schema. The caller bounds its depth."""
    return next(_faults(schema, "the schema"), None)


def _faults(schema: Any, at: str) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{at} must be an object, true or false"
        return
    for name, value in schema.items():
        place = f"{at}, {name}"
        if check := _CHECKS.get(name):
            yield from check(value, place)


def _type(value: Any, at: str) -> Iterator[str]:
    named = value if isinstance(value, list) else [value]
    if not named or any(name not in _TYPES for name in named):
        yield f"{at} must be of {', '.join(_TYPES)}"


def _texts(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{at} must be text"


def _names(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, list) or any(not isinstance(name, str) for name in value):
        yield f"{at} must be a list of names"


def _list(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{at} must be a list"


def _schemas(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, list) or not value:
        yield f"{at} must be a list of schemas"
        return
    for number, schema in enumerate(value):
        yield from _faults(schema, f"{at}[{number}]")


def _items(value: Any, at: str) -> Iterator[str]:
    """A list of schemas, too, as drafts before 2020-12 have it."""
    yield from _schemas(value, at) if isinstance(value, list) else _faults(value, at)


def _named(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{at} must be an object"
        return
    for name, schema in value.items():
        yield from _faults(schema, f"{at}.{str(name)[:80]}")


_CHECKS: dict[str, Callable[[Any, str], Iterator[str]]] = {
    "type": _type,
    "required": _names,
    "enum": _list,
    "items": _items,
    **dict.fromkeys(_TEXTS, _texts),
    **dict.fromkeys(_ONE, _faults),
    **dict.fromkeys(_LISTS, _schemas),
    **dict.fromkeys(_NAMED, _named),
}
