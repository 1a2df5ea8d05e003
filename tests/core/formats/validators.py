"""What providers accept, rule by rule. A request that breaks one is refused by the API it is meant for.

Written from the providers' documentation and their SDKs' types, not from our code; each rule has its source.
"""

import json
from collections.abc import Callable

from tests.core.formats.anthropic_validators import anthropic_messages
from tests.core.formats.openai_validators import openai_chat, openai_responses
from tests.core.formats.refusals import Refused, Request, refuse_unless


def validate(format: str, request: Request) -> None:
    """Passes a request that its provider accepts.

    Raises:
        Refused: naming the rule that it breaks.
    """
    _is_wire_text(request)
    VALIDATORS[format](request)


def _is_wire_text(request: Request) -> None:
    """A request is JSON in UTF-8 (RFC 8259): no lone surrogates, no NaN. NUL is refused by both providers'
    tokenizers' front ends and by many compatible servers."""
    try:
        text = json.dumps(request, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, UnicodeEncodeError) as error:
        raise Refused(f"no JSON in UTF-8: {error}") from error
    refuse_unless("\\u0000" not in text, "NUL in a text")


def plain(request: Request) -> None:
    """Our own rule: one text."""
    refuse_unless(set(request) == {"text"} and isinstance(request["text"], str), "no text", request)


VALIDATORS: dict[str, Callable[[Request], None]] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic_messages": anthropic_messages,
    "plain": plain,
}
