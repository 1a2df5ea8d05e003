"""Images in messages and results."""

from base64 import b64encode
from typing import Any

import pytest

from dashboard.rendering import step
from dashboard.rendering.blocks import IMAGE, TERMINAL, Block, Folder
from dashboard.rendering.images import image_block, image_bytes
from historyapp.core.entries import ModelInput

GIF = "R0lGODlhAQABAAAAACw="


def block(**part: Any) -> Block | None:
    return image_block(Folder(), "k", part)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "media_type": "image/gif", "data": GIF},
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": GIF}},
        {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{GIF}"}},
        {"type": "input_image", "image_url": f"data:image/gif;base64,{GIF}"},
    ],
)
def test_every_providers_image_is_shown(part: dict[str, Any]) -> None:
    image = block(**part)
    assert image
    assert (image.language, image.text, image.label) == (IMAGE, GIF, "image/gif, 0.0 KB")


@pytest.mark.parametrize("data", ["broken", "", "PHN2Zz4=", "PHNjcmlwdD4=", None, 5])
def test_a_part_that_is_not_an_image_is_named_and_not_shown(data: Any) -> None:
    image = block(type="image", media_type="image/png", data=data)
    assert image
    assert image.language == TERMINAL
    assert "cannot be shown" in image.text


def test_an_image_of_very_many_pixels_is_named_and_not_shown() -> None:
    """Browsers take four bytes of memory for each pixel."""
    image = block(type="image", media_type="image/gif", data="R0lGODlh/////wAAACw=")
    assert image
    assert image.language == TERMINAL
    assert image.text.startswith("This image has 65,535 × 65,535 pixels.")


def test_an_address_is_never_loaded() -> None:
    image = block(type="image", url="https://spy.example/i.png")
    assert image
    assert image.text == "Image at https://spy.example/i.png (not loaded)"


def test_other_parts_are_not_images() -> None:
    assert block(type="document") is None
    assert image_block(Folder(), "k", "text") is None


def test_the_bytes_determine_the_type() -> None:
    image = image_bytes(GIF)
    assert image
    assert image[0] == "image/gif"
    assert image_bytes("PHN2Zz4=") is None
    assert image_bytes("é") is None


class IncomparablePart(dict[str, Any]):
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        raise AssertionError("Comparing each part with each image takes hours for an input of 8 MB.")


def test_the_images_of_an_input_are_found_without_comparing_its_parts() -> None:
    urls = [f"https://spy.example/{number}" for number in range(2 * step.INPUTS)]
    parts = [
        IncomparablePart(type="text", text="Look."),
        *(IncomparablePart(type="image", url=url) for url in urls),
    ]
    blocks = step.input_blocks(Folder(), 1, ModelInput(content=parts), is_closed=False)
    assert [block.text for block in blocks] == [
        "Look.",
        *(f"Image at {url} (not loaded)" for url in urls[: step.INPUTS]),
    ]


def test_the_images_of_a_step_have_a_limit_together() -> None:
    folder = Folder()
    size = (4_000).to_bytes(4, "big") * 2
    png = {"type": "image", "data": b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size).decode()}
    blocks = [image_block(folder, f"image-{n}", png | {"media_type": "image/png"}) for n in range(5)]
    assert [block and block.shape for block in blocks] == ["image"] * 4 + ["terminal"]
    assert blocks[4]
    assert "with those before it, it has more than 64,000,000 pixels." in blocks[4].text
