"""What all validators share: how a rule is broken, and rules that hold for every provider."""

import base64
import binascii
import re
from typing import Any

Request = dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ID = re.compile(r"[A-Za-z0-9_-]+")
IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


class Refused(AssertionError):
    """A request that a provider would refuse with 400."""


def refuse_unless(true: object, why: str, what: Any = "") -> None:
    if not true:
        raise Refused(f"{why}: {what!r:.300}")


def refuse_blank(text: Any, what: str) -> None:
    """No empty text. Anthropic: "messages: text content blocks must be non-empty" and "must contain
    non-whitespace text" (Claude documentation, "Errors"; seen in public issues). OpenAI takes empty strings;
    our own rule is the stricter one for both."""
    refuse_unless(isinstance(text, str) and text.strip(), f"{what} is empty", text)


def is_base64(data: str) -> None:
    """Data that can be decoded (RFC 4648), and some of it."""
    try:
        refuse_unless(
            data and base64.b64decode(data + "=" * (-len(data) % 4), validate=True), "no data", data
        )
    except binascii.Error as error:
        raise Refused(f"no base64: {error}") from error
