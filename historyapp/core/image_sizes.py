"""The pixels of an image, read from the beginning of its base64 text, and how often a browser visits them:
the scans of a JPEG image, and the frames of an animation.

A browser takes four bytes of memory for each pixel, and an image of one colour has few bytes for very many
pixels. An image is not shown if its size is not where browsers would read it.

The package ``imagesize`` would not do: of a GIF it reads only the screen, as signed numbers, but browsers
enlarge the screen to the first picture.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from itertools import islice

MAX_SIDE = 8_000
"""Anthropic refuses images with a longer side, and OpenAI scales all images to far less. Source: the
documentation of each, "Vision". Dozens of images of 64,000 × 1,000 pixels, 8 KB each, are in view at once,
because they are shown with little height: a browser decoded them for 9 seconds."""
MAX_PIXELS = 16_000_000
"""Browsers decode an image in its full size. 20 GIF files of 8,000 × 8,000 pixels, 1.7 KB, took 4 s."""
MAX_SCANS = 20
"""A JPEG image can be sent in scans of the whole picture. libjpeg writes 10, of four colours 18. Browsers
visit all blocks for each: an image of 3,000 empty scans, 547 KB, stopped one for 45 seconds."""
MAX_FRAMES = 1_000
"""Browsers search the list of all frames for each frame: a WebP animation of 400,000 frames of one pixel
stopped one for 140 seconds. All frames of an animation together have at most ``MAX_PIXELS`` pixels, because
browsers decode them in their full size, and several at once when they are late: 20 animations of 100 frames
of 4,000 × 4,000 pixels, 88 KB together, stopped one for 58 seconds."""
MAX_DECODED = 64_000_000
"""Pixels that a browser decodes for the images of a step together: those of each frame, and of a JPEG image
for each scan. One JPEG image of 8,000 × 2,000 pixels with 20 scans, 0.6 KB, stopped a page for 9 seconds."""
_MAX_BLOCKS = 2_000
"""The most blocks of a JPEG or GIF file that are skipped to find its size. Cameras write fewer than 200."""
_MAX_GIF_BLOCKS = 200_000
"""The most blocks of a GIF file that are skipped to count its frames: 50 MB of full ones."""
_PIECE = 300_000
"""Bytes of an image that are searched at once, so that other threads can run in between."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD9)))
_JPEG_ENDS = (0xD9, 0xDA)

Size = tuple[int, int]
NO_IMAGE: Size = (0, 0)
"""Browsers show nothing, for example because the file ends before its size."""


class ShownImages:
    """The images that one page shows at once, such as those of a step."""

    def __init__(self) -> None:
        self._left = MAX_DECODED

    def why_not_shown(self, data: str) -> str | None:
        """Why the page does not show a further image. None if it does.

        Args:
            data: its base64 text.
        """
        size = image_size(data)
        if size is None:
            return "This image is not shown: its size in pixels cannot be read from its beginning."
        width, height = size
        pixels = f"{width:,} × {height:,} pixels"
        if max(width, height) > MAX_SIDE:
            return f"This image has {pixels}. Images with a side of more than {MAX_SIDE:,} are not shown."
        if width * height > MAX_PIXELS:
            return f"This image has {pixels}. Images with more than {MAX_PIXELS:,} are not shown."
        frames, scans = _frames(data), _scans_of_jpeg(data)
        if frames > MAX_FRAMES:
            return f"This image has more than {MAX_FRAMES:,} frames. Such animations are not shown."
        if frames * width * height > MAX_PIXELS:
            described = f"This image has {frames} frames of {pixels}."
            return f"{described} Animations with more than {MAX_PIXELS:,} pixels are not shown."
        if scans > MAX_SCANS:
            return f"This image has {scans:,} scans. JPEG images with more than {MAX_SCANS} are not shown."
        decoded = width * height * max(1, frames, scans)
        if decoded > MAX_DECODED:
            described = f"This image has {scans} scans of {pixels}."
            return (
                f"{described} JPEG images with more than {MAX_DECODED:,} pixels in all scans are not shown."
            )
        if decoded > self._left:
            return f"This image is not shown: with those before it, it has more than {MAX_DECODED:,} pixels."
        self._left -= decoded
        return None


def image_size(data: str) -> Size | None:
    """Width and height of a PNG, JPEG, GIF or WebP image; None if they cannot be read."""
    head = _bytes(data, 0, 32)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):  # the first block has the size; otherwise browsers refuse it
        return _big(head[16:20]), _big(head[20:24])
    if head.startswith(b"\xff\xd8\xff"):
        return _size_of_jpeg(data)
    if head.startswith(b"GIF8"):
        return _size_of_gif(data, head)
    if head.startswith(b"RIFF"):
        return _size_of_webp(head)
    return None


def _size_of_jpeg(data: str) -> Size | None:
    at = 2
    for _ in range(_MAX_BLOCKS):
        block = _bytes(data, at, 9)
        if len(block) < 2 or (block[0] == 0xFF and block[1] in _JPEG_ENDS):
            return NO_IMAGE
        if block[0] != 0xFF:
            return None
        if block[1] in _JPEG_FRAMES:
            return _big(block[7:9]), _big(block[5:7])
        if block[1] == 0xFF:
            at += 1
        elif block[1] in _JPEG_WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + _big(block[2:4])
    return None


def _scans_of_jpeg(data: str) -> int:
    """How many scans begin in a JPEG image. Its pixels cannot contain the mark of a beginning."""
    return _count(data, b"\xff\xda") if _bytes(data, 0, 3).startswith(b"\xff\xd8\xff") else 0


def _frames(data: str) -> int:
    """How many pictures an image shows one after the other, at most about ``MAX_FRAMES + 1`` of a GIF file.

    Each frame of a PNG or WebP animation begins with four letters. Elsewhere, an image contains them only by
    a very rare chance.
    """
    head = _bytes(data, 0, 8)
    if head.startswith(b"\x89PNG"):
        return _count(data, b"fcTL")
    if head.startswith(b"RIFF"):
        return _count(data, b"ANMF")
    if head.startswith(b"GIF8"):
        pictures = islice(_pictures_of_gif(data, _MAX_GIF_BLOCKS), MAX_FRAMES + 1)
        return sum(1 if picture else MAX_FRAMES + 1 for picture in pictures)
    return 0


def _count(data: str, mark: bytes) -> int:
    pieces = range(0, len(data) * 3 // 4, _PIECE)
    return sum(_bytes(data, start, _PIECE + len(mark) - 1).count(mark) for start in pieces)


def _size_of_gif(data: str, head: bytes) -> Size | None:
    """The size of the screen, or of the first picture if that is larger: browsers enlarge the screen then."""
    width, height = _little(head[6:8]), _little(head[8:10])
    picture = next(_pictures_of_gif(data, _MAX_BLOCKS), NO_IMAGE)
    return picture and (max(width, picture[0]), max(height, picture[1]))


def _pictures_of_gif(data: str, blocks: int) -> Iterator[Size | None]:
    """The right and the lower edge of each picture; None if there may be more after this many blocks."""
    head = _bytes(data, 0, 13)
    piece, start = head, 0
    at, parts_follow = _after_colours(13, _little(head[10:11])), False
    for _ in range(blocks):
        if at + 10 > start + len(piece):
            piece, start = _bytes(data, at, _PIECE), at
        block = piece[at - start : at - start + 10]
        if parts_follow and block:  # each begins with its length, and an empty one is the last
            at += 1 + block[0]
            parts_follow = bool(block[0])
        elif block[:1] == b"!":
            at, parts_follow = at + 2, True
        elif block[:1] == b",":
            left, top, wide, high = (_little(block[place : place + 2]) for place in (1, 3, 5, 7))
            yield left + wide, top + high
            at, parts_follow = _after_colours(at + 10, _little(block[9:])) + 1, True
        else:
            return
    yield None


def _after_colours(at: int, flags: int) -> int:
    """The place after the table of colours that these flags announce."""
    return at + (3 << (flags % 8 + 1) if flags & 0x80 else 0)


def _size_of_webp(head: bytes) -> Size:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + _little(head[24:27]), 1 + _little(head[27:30])
    if kind == b"VP8L":
        bits = _little(head[21:25])
        return 1 + bits % (1 << 14), 1 + (bits >> 14) % (1 << 14)
    if kind == b"VP8 ":
        return _little(head[26:28]) % (1 << 14), _little(head[28:30]) % (1 << 14)
    return NO_IMAGE


def _bytes(data: str, start: int, length: int) -> bytes:
    """Some bytes of base64 text, without decoding the others; fewer at its end."""
    first = start // 3
    piece = data[4 * first : 4 * ((start + length + 2) // 3)].rstrip("=")
    try:
        return b64decode(piece + "=" * (-len(piece) % 4))[start - 3 * first :][:length]
    except (Error, ValueError):
        return b""


def _big(number: bytes) -> int:
    return int.from_bytes(number, "big")


def _little(number: bytes) -> int:
    return int.from_bytes(number, "little")
