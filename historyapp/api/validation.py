"""Turns validation errors into sentences, which name the field and never repeat its value."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

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
_LONGEST_NAME = 60
"""No name is suggested for a longer one: comparing two names takes the product of their lengths."""
_VALIDATORS = ("function-", "json-or-python[")
"""How pydantic's names for the members of a union that are not models begin."""


def not_valid(errors: Sequence[Mapping[str, Any]]) -> NotValid:
    """The problem for pydantic's errors. It lists the first ``MAX_FIELD_ERRORS``."""
    errors = _without_consequences(errors)
    listed = [
        {"loc": _sent_path(error["loc"]), "message": _message(error)} for error in errors[:MAX_FIELD_ERRORS]
    ]
    names = (f"[{part}]" if isinstance(part, int) else f".{part[:100]}" for part in listed[0]["loc"])
    first = f"{''.join(names).lstrip('.')} {listed[0]['message']}"
    others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    end = "" if first.endswith("?") and not others else "."
    return NotValid(f"{first.removesuffix('.')}{others}{end}", errors=listed)


def _without_consequences(errors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without lists that are too short only because pydantic does not count their invalid items."""
    with_errors_inside = {error["loc"][:end] for error in errors for end in range(len(error["loc"]))}
    return [
        error for error in errors if error["type"] != "too_short" or error["loc"] not in with_errors_inside
    ]


def nearest_field(model: type[BaseModel], loc: Sequence[str | int]) -> str:
    """The name of the field that an unknown field was probably meant to be; empty if no name is like it.

    Args:
        loc: the path of the unknown field in the model, as in pydantic's errors.
    """
    models, name = [model], str(loc[-1])
    if len(name) > _LONGEST_NAME:
        return ""
    for part in loc[:-1]:
        fields = [each.model_fields[str(part)] for each in models if str(part) in each.model_fields]
        tagged = [each for each in models if _is_named(each, part)]
        if fields:
            models = [inner for field in fields for inner in _models(field.annotation)]
        elif tagged:  # the member of a union
            models = tagged
    known_names = sorted({field for each in models for field in each.model_fields})
    return next(iter(get_close_matches(name, known_names, 1)), "")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as ``list[A | B] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    # A validator may parse a model itself; then it names the model for the JSON schema.
    schema = getattr(annotation, "json_schema_input_type", None)
    for inner in get_args(annotation) if schema is None else (schema,):
        yield from _models(inner)


def _is_named(model: type[BaseModel], part: str | int) -> bool:
    """Whether a member of a union is named like this in a path: by its discriminator or its class."""
    fields = (model.model_fields.get(name) for name in ("kind", "status"))
    tags = [tag for field in fields if field for tag in get_args(field.annotation)]
    return part in (*tags, model.__name__)


def _sent_path(loc: Sequence[str | int]) -> list[str | int]:
    """The path without what the client did not send: the view's parameter, and names of validators. In the
    body of ``POST …/results`` also the ``status``, because ``error`` is the name of a field too."""
    if loc[:2] == ("body", "result"):
        loc = (*loc[:2], *loc[3:])
    has_parameter = loc[:1] == ("body",) or loc[:2] == ("query", "filter")
    sent = (*loc[:1], *loc[2:]) if has_parameter else loc
    return [part for part in sent if isinstance(part, int) or not part.startswith(_VALIDATORS)]


def _message(error: Mapping[str, Any]) -> str:
    kind = error["type"]
    if kind == "too_long" and error["ctx"]["field_type"] == "Value":  # a Text: pydantic knows only str
        kind = "string_too_long"
    template = _MESSAGES.get(kind)
    if template is not None:
        message = template.format_map(error.get("ctx", {}))
        return f"{message}. Did you mean {error['nearest']!r}?" if error.get("nearest") else message
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
