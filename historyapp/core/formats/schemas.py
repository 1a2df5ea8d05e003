"""Finds faults of a JSON schema before a provider refuses it.

It checks the faults for which providers refuse a whole request: the shape of the keywords that hold
schemas, and ``type``, ``required`` and ``enum``. Source: JSON Schema 2020-12, meta-schemas "core",
"applicator" and "validation". Unknown keywords are accepted, as the standard requires.
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


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (
        lambda value: (
            bool(names := value if isinstance(value, list) else [value])
            and all(name in _TYPES for name in names)
        ),
        f"of {', '.join(_TYPES)}",
    ),
    "required": (
        lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
        "a list of names",
    ),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "items": (lambda value: value != [], "a list of schemas"),
    **dict.fromkeys(_TEXTS, (lambda value: isinstance(value, str), "text")),
    **dict.fromkeys(_LISTS, (lambda value: isinstance(value, list) and bool(value), "a list of schemas")),
    **dict.fromkeys(_NAMED, (lambda value: isinstance(value, Mapping), "an object")),
}
"""By keyword: whether its value is valid, and what it must be."""


def schema_fault(schema: Any) -> str | None:
    """The first fault, with the path to it; None if the schema is valid. The caller limits its depth."""
    return next(_faults(schema, "the schema"), None)


def _faults(schema: Any, at: str) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{at} must be an object, true or false"
        return
    for name, value in schema.items():
        field = f"{at}, {name}"
        is_valid, expected = _VALUES.get(name, (None, ""))
        if is_valid and not is_valid(value):
            yield f"{field} must be {expected}"
        # ``items`` is a list in drafts before 2020-12.
        elif name in _ONE or (name == "items" and not isinstance(value, list)):
            yield from _faults(value, field)
        elif name in (*_LISTS, "items"):
            for number, inner in enumerate(value):
                yield from _faults(inner, f"{field}[{number}]")
        elif name in _NAMED:
            for key, inner in value.items():
                yield from _faults(inner, f"{field}.{str(key)[:80]}")
