"""Images of very many pixels in few bytes are recognised by their beginning."""

import struct
from base64 import b64encode
from collections.abc import Callable

import pytest

from historyapp.core.image_sizes import (
    MAX_FRAMES,
    MAX_SCANS,
    NO_IMAGE,
    ShownImages,
    Size,
    image_size,
)

SIDES = (23_000, 300)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", *SIDES)
FRAME = b"\xff\xc2\0\x11\x08" + struct.pack(">HH", 300, 23_000)
EXIF = b"\xff\xe1\x00\x08Exif\0\0"
GIF = b"GIF89a" + struct.pack("<HH", *SIDES) + b"\x80\0\0" + bytes(6)
EXTENSION = b"!\xff\x0bXMP DataXMP\x03abc\x01\x00\x00"
PICTURE = b"," + struct.pack("<HHHH", 1_000, 0, 22_000, 300)


def text(content: bytes) -> str:
    return b64encode(content).decode()


def why_not_shown(data: str) -> str | None:
    """As the only image of a page."""
    return ShownImages().why_not_shown(data)


@pytest.mark.parametrize(
    "content",
    [
        PNG,
        b"\xff\xd8" + FRAME,
        b"\xff\xd8" + EXIF * 100 + b"\xff\xff\xff" + FRAME,
        GIF,
        GIF[:6] + bytes(4) + GIF[10:] + EXTENSION + PICTURE,
        b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (22_999).to_bytes(3, "little") + (299).to_bytes(3, "little"),
    ],
)
@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\0"])
def test_the_size_of_an_image_is_found(content: bytes, rest: bytes) -> None:
    assert image_size(text(content + rest)) == SIDES
    assert image_size(text(content + rest).rstrip("=")) == SIDES


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (b"RIFF\0\0\0\0WEBPVP8L" + bytes(4) + b"/" + ((99 << 14) + 199).to_bytes(4, "little"), (200, 100)),
        (b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 200, 100), (200, 100)),
        (b"\x89PNG\r\n\x1a\n", NO_IMAGE),
        (b"\xff\xd8\xff", NO_IMAGE),
        (b"\xff\xd8" + EXIF + b"\xff\xda", NO_IMAGE),
        (b"RIFF", NO_IMAGE),
    ],
)
def test_other_sizes_are_found_and_broken_images_have_none(content: bytes, size: Size) -> None:
    assert image_size(text(content)) == size


@pytest.mark.parametrize(
    "content",
    [b"BM" + bytes(60), b"\xff\xd8" + EXIF + b"rubbish" + FRAME, b"\xff\xd8" + EXIF * 3_000 + FRAME],
)
def test_an_image_whose_size_cannot_be_read_is_not_shown(content: bytes) -> None:
    assert "cannot be read" in str(why_not_shown(text(content)))


def test_an_image_of_very_many_pixels_is_not_shown() -> None:
    assert why_not_shown(text(PNG[:16] + struct.pack(">II", 8_000, 2_000))) is None
    assert why_not_shown(text(PNG[:16] + struct.pack(">II", 4_001, 4_000))) == (
        "This image has 4,001 × 4,000 pixels. Images with more than 16,000,000 are not shown."
    )
    assert why_not_shown(text(PNG[:16] + struct.pack(">II", 8_001, 10))) == (
        "This image has 8,001 × 10 pixels. Images with a side of more than 8,000 are not shown."
    )
    assert why_not_shown(text(PNG[:16] + struct.pack(">II", 10, 64_000))) is not None


@pytest.mark.parametrize("length", range(299_970, 299_976))
def test_a_jpeg_image_of_many_scans_is_not_shown(length: int) -> None:
    """One of 8,000 x 8,000 pixels with 3,000 empty scans, 547 KB, stopped a browser for 45 seconds."""
    head = b"\xff\xd8\xff\xc2\0\x11\x08" + struct.pack(">HH", 800, 800) + bytes(length)
    scan = b"\xff\xda\0\x08\1\1\0\1\x3f\0\x78"
    assert why_not_shown(text(head + scan * MAX_SCANS)) is None
    assert why_not_shown(text(head + scan * (MAX_SCANS + 1)).rstrip("=")) == (
        "This image has 21 scans. JPEG images with more than 20 are not shown."
    )
    assert why_not_shown(text(PNG[:16] + struct.pack(">II", 80, 80) + scan * 99)) is None


def animated_png(side: int, frames: int) -> bytes:
    return PNG[:16] + struct.pack(">II", side, side) + (b"\0\0\0\x1afcTL" + bytes(30) + b"IDAT") * frames


def animated_webp(side: int, frames: int) -> bytes:
    size = (side - 1).to_bytes(3, "little") * 2
    return b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + size + (b"ANMF" + bytes(30)) * frames


def animated_gif(side: int, frames: int) -> bytes:
    """Each frame has a table of two colours, an extension and data that look like another frame."""
    screen = b"GIF89a" + struct.pack("<HH", side, side) + b"\x81\0\0" + bytes(12)
    picture = b"," + struct.pack("<HHHH", 0, 0, side, side) + b"\x80" + bytes(6)
    return screen + (EXTENSION + picture + b"\x02" + b"\x05,,\0,," * 3 + b"\0") * frames + b";" + picture * 99


@pytest.mark.parametrize("animation", [animated_png, animated_webp, animated_gif])
def test_an_animation_of_very_many_frames_or_pixels_is_not_shown(
    animation: Callable[[int, int], bytes],
) -> None:
    """20 of 100 frames of 4,000 x 4,000 pixels, 88 KB together, stopped a browser for 58 seconds."""
    assert why_not_shown(text(animation(4_000, 1))) is None
    assert why_not_shown(text(animation(400, 100))) is None
    assert why_not_shown(text(animation(401, 100))) == (
        "This image has 100 frames of 401 × 401 pixels. "
        "Animations with more than 16,000,000 pixels are not shown."
    )
    assert why_not_shown(text(animation(1, MAX_FRAMES))) is None
    assert why_not_shown(text(animation(1, MAX_FRAMES + 1))) == (
        "This image has more than 1,000 frames. Such animations are not shown."
    )


@pytest.mark.parametrize("length", range(299_980, 300_000))
def test_frames_are_counted_across_the_pieces_that_are_read(length: int) -> None:
    still = animated_webp(1, 0)
    frames = bytes(length - len(still)) + b"ANMF" * (MAX_FRAMES + 1)
    assert "more than 1,000 frames" in str(why_not_shown(text(still + frames)))
    assert why_not_shown(text(still + frames[:-4])) is None


def test_a_gif_image_whose_frames_cannot_be_counted_soon_is_not_shown() -> None:
    screen = b"GIF89a" + struct.pack("<HH", 1, 1) + bytes(3)
    picture = b"," + struct.pack("<HHHH", 0, 0, 1, 1) + b"\0\x02"
    assert "more than 1,000 frames" in str(why_not_shown(text(screen + picture + b"\1\1" * 200_000)))
    assert why_not_shown(text(screen + picture + (b"\xff" + bytes(255)) * 60_000 + b"\0;")) is None


def jpeg(width: int, height: int, scans: int) -> str:
    head = b"\xff\xd8\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width)
    return text(head + b"\xff\xda\0\x08\1\1\0\1\x3f\0\x78" * scans)


def test_a_jpeg_image_of_very_many_pixels_in_all_scans_is_not_shown() -> None:
    """One of 8,000 x 2,000 pixels with 20 scans, 0.6 KB, stopped a page for 9 seconds."""
    assert why_not_shown(jpeg(2_500, 2_560, 10)) is None
    assert why_not_shown(jpeg(8_000, 2_000, 4)) is None
    assert why_not_shown(jpeg(8_000, 2_000, 5)) == (
        "This image has 5 scans of 8,000 × 2,000 pixels. "
        "JPEG images with more than 64,000,000 pixels in all scans are not shown."
    )


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        (jpeg(8_000, 2_000, 4), 1),
        (jpeg(4_000, 4_000, 1), 4),
        (text(PNG[:16] + struct.pack(">II", 4_000, 4_000)), 4),
        (text(animated_webp(2_800, 2)), 4),
        (jpeg(1_000, 1_000, 0), 64),
    ],
)
def test_the_images_of_a_step_have_a_limit_together(image: str, shown: int) -> None:
    images = ShownImages()
    reasons = [images.why_not_shown(image) for _ in range(shown + 2)]
    assert reasons[:shown] == [None] * shown
    assert (
        reasons[shown:]
        == ["This image is not shown: with those before it, it has more than 64,000,000 pixels."] * 2
    )


def test_a_small_image_is_shown_after_a_large_one_that_is_not() -> None:
    images = ShownImages()
    assert images.why_not_shown(jpeg(4_000, 4_000, 3)) is None
    assert images.why_not_shown(jpeg(4_000, 4_000, 2)) is not None
    assert images.why_not_shown(jpeg(1_000, 1_000, 1)) is None
