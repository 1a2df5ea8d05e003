"""Positions in a stored session and in its file. They differ after an entry that is not in the file."""

from historyapp.models import ImportSource


def add_shift(source: ImportSource, position: int, by: int) -> None:
    """Records that entries from this position on are ``by`` positions later in the stored session."""
    if by != (source.shifts[-1][1] if source.shifts else 0):
        source.shifts.append([position, by])


def stored_position(source: ImportSource, position: int) -> int:
    """The position in the stored session for a position in the file's session."""
    by = 0
    for since, shift in source.shifts:
        if since <= position:
            by = shift
    return position + by
