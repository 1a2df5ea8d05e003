"""Provider-neutral parts of inputs and results that are not plain text.

Neutral parts are ``{"type": "text", "text"}`` and ``{"type": "image"}`` with either ``url`` or
``media_type`` and base64 ``data``. Every other block stays as its provider wrote it. Each format says which
blocks it accepts. Other blocks, for example an image of an unsupported type, are replaced by their name.
"""

import re
import string
from collections.abc import Callable
from typing import Any

from historyapp.core.json import json_text, parse_embedded
from historyapp.core.text import PIECE_LENGTH

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The image types that both providers read. Source: the documentation of each, "Vision"."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+")
_MAGIC = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
_NOT_TEXT = ("image", "image_url", "document", "file", "input_audio", "audio", "video")


def neutral_content(content: Any) -> Any:
    """A provider's content as the log stores it: text, or a list of neutral parts."""
    if content is None or content == []:
        return ""
    if not isinstance(content, list):
        return content
    parts: list[Any] = []
    for part in content:
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        elif not isinstance(part, dict):
            parts.append(part)
        elif part.get("type") in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        else:
            parts.append(_image(part) or part)
    is_text = len(parts) == 1 and isinstance(parts[0], dict) and parts[0].get("type") == "text"
    return parts[0]["text"] if is_text and isinstance(parts[0].get("text"), str) else parts


def _image(part: dict[str, Any]) -> dict[str, Any] | None:
    """An OpenAI ``image_url`` or an Anthropic ``image`` block as a neutral image."""
    source = part.get("source")
    if part.get("type") == "image" and isinstance(source, dict):
        if isinstance(source.get("url"), str):
            return {"type": "image", "url": source["url"]}
        if isinstance(source.get("data"), str):
            return {"type": "image", "media_type": source.get("media_type"), "data": source["data"]}
    url = part.get("image_url")
    url = url.get("url") if isinstance(url, dict) else url
    if part.get("type") == "image_url" and isinstance(url, str):
        return _from_data_url(url) or {"type": "image", "url": url}
    return None


def _from_data_url(url: str) -> dict[str, Any] | None:
    head, comma, data = url.partition(";base64,")
    if not comma or not head.startswith("data:image/"):
        return None
    return {"type": "image", "media_type": head.removeprefix("data:"), "data": data}


Shape = Callable[[dict[str, Any]], dict[str, Any] | None]
"""Converts a part to a provider's block, or to None if the provider does not accept it."""


def shaped_content(content: Any, shape: Shape) -> str | list[dict[str, Any]]:
    """Neutral content as text or as a provider's blocks; empty for blank content."""
    if not are_parts(content):
        return plain_text(content)
    blocks: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, dict) and (block := shape(part)):
            blocks.append(block)
        elif (text := _part_text(part)).strip():
            blocks.append({"type": "text", "text": text})
    return blocks


def are_parts(content: Any) -> bool:
    """Whether the content is a list of parts. Any other list is one value, for example a JSON result."""
    return isinstance(content, list) and any(isinstance(part, dict) and "type" in part for part in content)


def plain_text(content: Any) -> str:
    """Any content as text only: parts that are not text are replaced by their name, other values by JSON."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if are_parts(content):
        return "\n\n".join(text for part in content if (text := _part_text(part)).strip())
    return json_text(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else None
    return f"[{kind}]" if kind in _NOT_TEXT else json_text(part)


def image_url(part: dict[str, Any], schemes: tuple[str, ...]) -> str | None:
    """The image as a data URL, or its URL if it has one of the schemes, or None."""
    if data := image_data(part):
        return f"data:{data[0]};base64,{data[1]}"
    url = part.get("url")
    return url if isinstance(url, str) and url.startswith(schemes) else None


def image_data(part: dict[str, Any]) -> tuple[str, str] | None:
    """Media type and base64 data of an image that providers can read, or None.

    If the first bytes show the media type, it replaces the recorded one: providers compare the two.
    """
    url, data = part.get("url"), part.get("data")
    media_type = part.get("media_type") or "image/png"
    if isinstance(url, str) and (inline := _from_data_url(url)):
        media_type, data = inline["media_type"], inline["data"]
    if not isinstance(data, str):
        return None
    if not is_base64(data):
        for space in string.whitespace:  # a list of all pieces would take a hundred bytes for each
            data = data.replace(space, "")
    media_type = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), media_type)
    return (media_type, data) if media_type in IMAGE_TYPES and is_base64(data) else None


def is_base64(text: str) -> bool:
    """Whether a text is base64 without white space. A long one is read in pieces, between which other threads
    can run, and a wrong character at its end does not start a search from the beginning.
    """
    end = len(text) - (text.endswith("=") + text.endswith("=="))
    starts = range(0, end, PIECE_LENGTH)
    return end > 0 and all(_BASE64.fullmatch(text, start, min(start + PIECE_LENGTH, end)) for start in starts)


def has_texts(value: Any, *key_sets: tuple[str, ...]) -> bool:
    """Whether an object has a text in every field of at least one of the ``key_sets``."""
    if not isinstance(value, dict):
        return False
    return any(all(isinstance(value.get(name), str) and value[name] for name in keys) for keys in key_sets)


def arguments_of(raw: Any) -> Any:
    """A tool call's arguments as the log stores them: an object, or the raw text if it is not a JSON object.

    Providers send an object or a JSON string. A missing or empty value means no arguments.
    """
    if raw is None or raw == "":
        return {}
    if not isinstance(raw, str):
        return raw
    try:
        value = parse_embedded(raw)
    except ValueError:
        return raw
    return value if isinstance(value, dict) else raw
