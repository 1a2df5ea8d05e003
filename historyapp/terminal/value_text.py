"""The values in entries of the API as text."""

import json
from typing import Any


def value_text(value: Any, separator: str = " ", indent: int | None = None) -> str:
    """A string unchanged, the texts of message parts, or JSON for other values.

    Args:
        separator: between the texts of parts.
        indent: of JSON; None: on one line.
    """
    if value is None:
        return ""
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        texts = [part["text"] for part in value if isinstance(part.get("text"), str)]
        if texts:
            return separator.join(texts)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)
