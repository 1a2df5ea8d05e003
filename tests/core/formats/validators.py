"""What providers accept, rule by rule. A request that breaks one is refused by the API it is meant for.

Written from the providers' documentation and their SDKs' types, not from our code; each rule has its source.
"""

import re
from collections.abc import Callable
from math import isfinite
from typing import Any

from historyapp.core.formats import FORMATS
from tests.core.formats.anthropic_validators import anthropic_messages
from tests.core.formats.any_provider import check_request
from tests.core.formats.openai_validators import openai_chat, openai_responses
from tests.core.formats.refusals import Request, refuse_unless


def validate(format: str, request: Request) -> None:
    """Accepts a request that its provider accepts.

    Raises:
        Refused: naming the rule that it breaks.
    """
    _is_wire_text(request)
    if format in VALIDATORS:
        VALIDATORS[format](request)
    else:
        check_request(FORMATS[format], request)


def _is_wire_text(value: Any) -> None:
    """A request is JSON in UTF-8 (RFC 8259): no lone surrogates, no NaN. No text for a model contains NUL;
    compatible servers refuse it."""
    match value:
        case str():
            refuse_unless(not re.search("[\0\ud800-\udfff]", value), "not text", value)
        case dict():
            for name, item in value.items():
                _is_wire_text(name)
                _is_wire_text(item)
        case list():
            for item in value:
                _is_wire_text(item)
        case float():
            refuse_unless(isfinite(value), "not a number", value)


def plain(request: Request) -> None:
    """Our own rule: one text."""
    refuse_unless(set(request) == {"text"} and isinstance(request["text"], str), "no text", request)


VALIDATORS: dict[str, Callable[[Request], None]] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic_messages": anthropic_messages,
    "plain": plain,
}
