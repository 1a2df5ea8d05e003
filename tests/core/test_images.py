import base64
import struct

import pytest

from historyapp.core.images import (
    UNKNOWN_SIZE,
    Size,
    anthropic_image_tokens,
    image_size,
    openai_image_tokens,
)

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab" + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640) + b"\0" * 8
WEBP = b"RIFF\0\0\0\0WEBP"
LOSSY = WEBP + b"VP8 " + b"\0" * 10 + struct.pack("<HH", 640, 480)
LOSSLESS = WEBP + b"VP8L" + b"\0" * 5 + (639 | 479 << 14).to_bytes(4, "little")
EXTENDED = WEBP + b"VP8X" + b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


@pytest.mark.parametrize("raw", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_the_size_of_an_image_is_in_its_header(raw: bytes) -> None:
    assert image_size(base64.b64encode(raw).decode()) == Size(640, 480)


BROKEN = [b"", b"\0", PNG[:20], PNG[:16] + b"\0" * 8, b"\xff\xd8\xff", WEBP + b"ODD "]


@pytest.mark.parametrize("data", ["no base64!", "ä", *(base64.b64encode(raw).decode() for raw in BROKEN)])
def test_an_image_without_a_readable_size_counts_as_a_large_one(data: str) -> None:
    assert image_size(data) == UNKNOWN_SIZE


@pytest.mark.parametrize(
    ("size", "tokens"),
    [(Size(200, 200), 54), (Size(1000, 1000), 1334), (Size(1092, 1092), 1590), (Size(9000, 9000), 4784)],
)
def test_anthropic_counts_pixels(size: Size, tokens: int) -> None:
    """The first three are from the table in its documentation."""
    assert anthropic_image_tokens(size) == tokens


@pytest.mark.parametrize(
    ("size", "tiles", "patches"),
    [(Size(1024, 1024), 765, 1659), (Size(2048, 4096), 1105, 2489), (Size(16, 16), 255, 2)],
)
def test_openai_counts_the_larger_cost_of_tiles_and_patches(size: Size, tiles: int, patches: int) -> None:
    """Tiles of the first two are its documentation's own examples, and so are the patches of the first."""
    assert openai_image_tokens(size) == max(tiles, patches)
