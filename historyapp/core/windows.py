"""How many tokens a request to a model may have: the budget of contexts where nobody chose one."""

from historyapp.core.prices import bare_name

UNKNOWN = 200_000
"""Tokens, for models that the table does not list."""
_INPUT = {
    "gpt-5": 272_000,
    "gpt-4.1": 1_014_000,
    "gpt-4o": 111_000,
    "gpt-4": 8_000,
    "gpt-3.5-turbo": 12_000,
    "o1": 100_000,
    "o3": 100_000,
    "o4-mini": 100_000,
    "claude": 200_000,
}
"""Tokens of input, by how the names of a family begin: the window less the room that its answers may take.
Source: OpenAI documentation, "Models", and Claude documentation, "Models overview", on 2026-11-22."""


def window_of(model: str) -> int:
    """Tokens that a request to the model may have, by the longest beginning of its name that is listed."""
    name = bare_name(model)
    known = [family for family in _INPUT if name.startswith(family)]
    return _INPUT[max(known, key=len)] if known else UNKNOWN
