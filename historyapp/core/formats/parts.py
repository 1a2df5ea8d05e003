"""What inputs and results consist of beyond plain text: provider-neutral parts, and each provider's own.

Neutral parts are ``{"type": "text", "text"}`` and ``{"type": "image"}`` with either ``url`` or
``media_type`` and base64 ``data``. Every other block stays as its provider wrote it, and is sent to that
provider only.
"""

from collections.abc import Callable
from typing import Any

from historyapp.core.text import dump_json

_OPENAI_OWN = ("file", "input_audio")
_ANTHROPIC_OWN = ("document", "search_result")
_NOT_TEXT = ("image", "image_url", "document", "file", "input_audio", "audio", "video")


def neutral_content(content: Any) -> Any:
    """A provider's content as the log holds it: text if it is nothing else, or a list of neutral parts."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    parts = [_neutral(part) for part in content]
    if not parts:
        return ""
    if len(parts) == 1 and _is_text(parts[0]):
        return parts[0]["text"]
    return parts


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _neutral(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return part
    if part.get("type") in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return _image(part) or part


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


def openai_content(content: Any) -> str | list[dict[str, Any]]:
    """Neutral content as the content of an OpenAI user message; empty when it says nothing."""
    return _provider_content(content, _openai_image, _OPENAI_OWN)


def anthropic_content(content: Any) -> str | list[dict[str, Any]]:
    """Neutral content as the content of an Anthropic user message or tool result."""
    return _provider_content(content, _anthropic_image, _ANTHROPIC_OWN)


def _provider_content(
    content: Any, image: Callable[[dict[str, Any]], dict[str, Any] | None], own: tuple[str, ...]
) -> str | list[dict[str, Any]]:
    if not _are_parts(content):
        return plain_text(content)
    blocks: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, dict) and part.get("type") in own:
            blocks.append(part)
        elif isinstance(part, dict) and part.get("type") == "image" and (block := image(part)):
            blocks.append(block)
        elif (text := _part_text(part)).strip():
            blocks.append({"type": "text", "text": text})
    return blocks


def _are_parts(content: Any) -> bool:
    """Whether it is a list of blocks, and not a value that happens to be a list."""
    return isinstance(content, list) and any(isinstance(part, dict) and "type" in part for part in content)


def plain_text(content: Any) -> str:
    """Any content as text alone: parts that cannot be text are named, other values become JSON."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if _are_parts(content):
        return "\n\n".join(text for part in content if (text := _part_text(part)).strip())
    return dump_json(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else None
    return f"[{kind}]" if kind in _NOT_TEXT else dump_json(part)


def _openai_image(part: dict[str, Any]) -> dict[str, Any] | None:
    url = part.get("url")
    if isinstance(part.get("data"), str):
        url = f"data:{part.get('media_type') or 'image/png'};base64,{part['data']}"
    return {"type": "image_url", "image_url": {"url": url}} if isinstance(url, str) else None


def _anthropic_image(part: dict[str, Any]) -> dict[str, Any] | None:
    if isinstance(part.get("data"), str):
        media_type = part.get("media_type") or "image/png"
        source = {"type": "base64", "media_type": media_type, "data": part["data"]}
        return {"type": "image", "source": source}
    if isinstance(part.get("url"), str):
        return {"type": "image", "source": {"type": "url", "url": part["url"]}}
    return None
