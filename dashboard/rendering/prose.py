"""Whether a text is Markdown. Most output of tools is not, and would lose its lines if shown as such."""

import re

_SAMPLE = 8_000
"""Characters at the beginning that decide."""
_SIGNS = (
    re.compile(r"^#{1,6} \S", re.MULTILINE),
    re.compile(r"^```", re.MULTILINE),
    re.compile(r"\*\*[^*\n ][^*\n]{0,200}\*\*"),
    re.compile(r"^ {0,3}(?:[-*]|\d{1,2}\.) \S", re.MULTILINE),
    re.compile(r"^\|[ :|-]{3,200}\|$", re.MULTILINE),
    re.compile(r"\[[^][\n]{1,200}\]\(https?:"),
    re.compile(r"`[^`\n]{1,200}`"),
)


def is_markdown(text: str) -> bool:
    """Whether a text has at least two different signs of Markdown."""
    sample = text[:_SAMPLE]
    return "\x1b" not in sample and sum(bool(sign.search(sample)) for sign in _SIGNS) >= 2
