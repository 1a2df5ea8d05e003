"""Turns validation errors into sentences, which name the field and never repeat its value."""

from collections.abc import Mapping, Sequence
from typing import Any

from historyapp.wire.problems import MAX_FIELD_ERRORS, NotValid

_MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request",
    "string_type": "must be text",
    "string_unicode": "must be text without lone surrogates",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_pattern_mismatch": "contains a character that is not allowed here",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "union_tag_not_found": "{discriminator} is missing",
}
_VALIDATORS = ("function-", "json-or-python[")
"""How pydantic's names for the members of a union that are not models begin."""


def not_valid(errors: Sequence[Mapping[str, Any]]) -> NotValid:
    """The problem for pydantic's errors. It lists the first ``MAX_FIELD_ERRORS``."""
    listed = [
        {"loc": _sent_path(error["loc"]), "message": _message(error)} for error in errors[:MAX_FIELD_ERRORS]
    ]
    names = (f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in listed[0]["loc"])
    first = f"{''.join(names).lstrip('.')} {listed[0]['message']}"
    others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return NotValid(f"{first.removesuffix('.')}{others}.", errors=listed)


def _sent_path(loc: Sequence[str | int]) -> list[str | int]:
    """The path without what the client did not send: the view's parameter, and names of validators."""
    has_parameter = loc[:1] == ("body",) or loc[:2] == ("query", "filter")
    sent = (*loc[:1], *loc[2:]) if has_parameter else loc
    return [part for part in sent if isinstance(part, int) or not part.startswith(_VALIDATORS)]


def _message(error: Mapping[str, Any]) -> str:
    template = _MESSAGES.get(error["type"])
    if template is not None:
        return template.format_map(error.get("ctx", {}))
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
