"""The tokens of an image, computed from its size in pixels by the formulae that providers publish."""

from math import ceil
from typing import NamedTuple

from historyapp.core import image_sizes


class Size(NamedTuple):
    """In pixels."""

    width: int
    height: int


UNKNOWN_SIZE = Size(2048, 2048)
"""The size that is assumed if none can be read. Its price is close to the highest of any image."""


def image_size(data: str) -> Size:
    """The size of a base64 PNG, GIF, WebP or JPEG image; ``UNKNOWN_SIZE`` if it cannot be read."""
    size = image_sizes.image_size(data)
    return Size(*size) if size and all(size) else UNKNOWN_SIZE


def data_size(source: str) -> Size:
    """The size of an image given as base64 or as a data URL; ``UNKNOWN_SIZE`` for any other URL."""
    return image_size(source.partition(";base64,")[2] if source.startswith("data:") else source)


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
