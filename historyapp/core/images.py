"""The tokens of an image, computed from its size in pixels by the formulae that providers publish."""

import base64
import binascii
import struct
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

_HEADER = 256 * 1024
"""Characters of base64 that are read to find a size: in a JPEG, metadata of any length precede it."""


class Size(NamedTuple):
    """In pixels."""

    width: int
    height: int


UNKNOWN_SIZE = Size(2048, 2048)
"""The size that is assumed if none can be read. Its price is close to the highest of any image."""


def image_size(data: str) -> Size:
    """The size of a base64 PNG, GIF, WebP or JPEG image; ``UNKNOWN_SIZE`` if it cannot be read."""
    head = data[:_HEADER]
    try:
        raw = base64.b64decode(head[: len(head) // 4 * 4])
        size = next((read(raw) for magic, read in _READERS if raw.startswith(magic)), None)
    except (binascii.Error, ValueError, struct.error, IndexError):
        return UNKNOWN_SIZE
    return size if size and size.width and size.height else UNKNOWN_SIZE


def data_size(source: str) -> Size:
    """The size of an image given as base64 or as a data URL; ``UNKNOWN_SIZE`` for any other URL."""
    return image_size(source.partition(";base64,")[2] if source.startswith("data:") else source)


def _webp(raw: bytes) -> Size | None:
    match raw[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", raw[26:30])
            return Size(width & 0x3FFF, height & 0x3FFF)
        case b"VP8L":
            bits = int.from_bytes(raw[21:25], "little")
            return Size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8X":
            return Size(int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1)
    return None


def _jpeg(raw: bytes) -> Size | None:
    """The size in the first start-of-frame segment."""
    offset = 2
    while offset + 9 <= len(raw) and raw[offset] == 0xFF:
        marker = raw[offset + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[offset + 5 : offset + 9])
            return Size(width, height)
        offset += 2 + int.from_bytes(raw[offset + 2 : offset + 4], "big")
    return None


_READERS: tuple[tuple[bytes, Callable[[bytes], Size | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", lambda raw: Size(*struct.unpack(">II", raw[16:24]))),
    (b"GIF8", lambda raw: Size(*struct.unpack("<HH", raw[6:10]))),
    (b"RIFF", _webp),
    (b"\xff\xd8", _jpeg),
)


def anthropic_image_tokens(size: Size) -> int:
    """``width * height / 750`` after scaling to at most 1,568 pixels a side and about 1,600 tokens.

    Source: Claude documentation, "Vision", "Calculate image costs". Newer models do not scale images of
    up to 2,576 pixels a side. This larger bound is used here, because the result must not be too low.
    """
    scale = min(1.0, 2576 / max(size))
    return min(ceil(size.width * size.height * scale * scale / 750), 4784)


def openai_image_tokens(size: Size) -> int:
    """The higher result of OpenAI's two published rules; the model decides which of them applies.

    Tiles (gpt-4o): fit into 2,048 × 2,048, shorter side to 768, 85 tokens and 170 for each 512-pixel tile.
    Patches (gpt-4.1-mini, gpt-5-mini): one for each 32-pixel square, at most 1,536, times 1.62.
    Source: OpenAI documentation, "Images and vision", "Calculating costs".
    """
    fit = min(1.0, 2048 / max(size))
    width, height = size.width * fit, size.height * fit
    shrink = min(1.0, 768 / min(width, height))
    tiles = ceil(width * shrink / 512) * ceil(height * shrink / 512)
    patches = ceil(size.width / 32) * ceil(size.height / 32)
    return max(85 + 170 * tiles, ceil(1.62 * min(patches, 1536)))
