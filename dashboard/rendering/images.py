"""Images in messages and results. Playhead serves them; no address that an agent names is ever loaded."""

from base64 import b64decode
from binascii import Error
from typing import Any

from dashboard.rendering.blocks import IMAGE, Block, Folder
from historyapp.core.content import IMAGE_TYPES, image_data, neutral_content

_FIRST_BYTES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_IMAGE_PARTS = ("image", "image_url", "input_image")


def is_image(part: Any) -> bool:
    """Whether a part of a message or result is an image."""
    return isinstance(part, dict) and part.get("type") in _IMAGE_PARTS


def image_block(folder: Folder, key: str, part: Any) -> Block | None:
    """An image part, or why it cannot be shown; None if the part is not an image."""
    if not is_image(part):
        return None
    neutral = neutral_content([part | {"type": "image_url"} if part["type"] == "input_image" else part])
    image = neutral[0] if isinstance(neutral, list) else part
    url = image.get("url")
    if isinstance(url, str) and not url.startswith("data:"):
        return folder.block(key, f"Image at {url[:500]} (not loaded)")
    data = image_data(image)
    if data is None or image_bytes(data[1][:64]) is None:
        return folder.block(key, "This image cannot be shown: it is not a PNG, JPEG, GIF or WebP file.")
    if reason := folder.images.why_not_shown(data[1]):
        return folder.block(key, f"{reason} The export as Playhead JSONL contains it.")
    kilobytes = len(data[1]) * 3 / 4 / 1024
    return folder.block(key, data[1], IMAGE, f"{data[0]}, {kilobytes:,.1f} KB")


def image_bytes(data: str) -> tuple[str, bytes] | None:
    """Media type and bytes of base64 data; None unless they begin like an image of an allowed type."""
    try:
        content = b64decode(data + "=" * (-len(data) % 4))
    except (Error, ValueError):
        return None
    return next(((kind, content) for kind in IMAGE_TYPES if content.startswith(_FIRST_BYTES[kind])), None)
