"""The limits of a session's title, tags and metadata. They are low, because each read includes them."""

from collections.abc import Mapping
from typing import Any

from historyapp.core.json import dump_json, is_longer

MAX_METADATA = 65_536
"""Characters of a session's metadata as compact JSON in ASCII, which is how it is stored."""
MAX_TITLE = 300
MAX_TAGS, MAX_TAG = 50, 100
"""The maximum number of tags of a session, and of characters of one tag."""


def fitting_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields of a transcript's metadata that fit into the limit, and the sizes of the others by name.

    If not all fit, the smallest are kept: a run has one or two long facts and many short ones. A field that
    does not fit alone has the size ``MAX_METADATA + 1``.
    """
    if not is_longer(metadata, MAX_METADATA):
        return dict(metadata), {}
    fields = {name: {name: value} for name, value in metadata.items()}
    sizes = {
        name: MAX_METADATA + 1 if is_longer(field, MAX_METADATA) else len(dump_json(field))
        for name, field in fields.items()
    }
    size = 2 + sum(size - 1 for size in sizes.values()) - 1  # braces and commas
    left_out: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if size <= MAX_METADATA:
            break
        size -= sizes[name] - 1  # without its braces, with a comma
        left_out[name] = sizes[name]
    return {name: value for name, value in metadata.items() if name not in left_out}, left_out
