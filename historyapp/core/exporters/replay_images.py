"""Names the images of an exported step that a browser would decode for too long."""

from typing import Any

from historyapp.core.image_sizes import ShownImages


def with_few_pixels(parts: Any, images: ShownImages) -> Any:
    """The parts of a step, with the reason in place of each image that is not shown.

    Args:
        parts: texts, and lists and objects of parts. An image is an object with the data URL as ``image``.
    """
    if isinstance(parts, list):
        return [with_few_pixels(part, images) for part in parts]
    if not isinstance(parts, dict):
        return parts
    if "image" in parts:
        reason = images.why_not_shown(parts["image"].partition(",")[2])
        return f"[{reason}]" if reason else parts
    return {name: with_few_pixels(part, images) for name, part in parts.items()}
