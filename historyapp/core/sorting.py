"""Sort keys as the API and addresses write them: ``steps``, or ``-steps`` for descending order."""

from collections.abc import Collection

from historyapp.core.errors import Invalid


def parse_sort(text: str, keys: Collection[str]) -> tuple[str, bool]:
    """The key in a text, and whether the order is descending.

    Raises:
        Invalid: if there is no such key.
    """
    name = text.removeprefix("-")
    if name not in keys:
        raise Invalid(f"`sort` must be one of {', '.join(keys)}, with - before it for descending order.")
    return name, text.startswith("-")


def sort_text(name: str, is_descending: bool) -> str:
    """Reverses :func:`parse_sort`."""
    return f"-{name}" if is_descending else name
