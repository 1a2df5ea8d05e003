"""Removes the probabilities of tokens (``logprobs``) from the JSON of a response, before it is parsed.

No reader uses them, and with ``top_logprobs`` each token has 42 lists and objects. The Responses API sends
them five times: for a response of 2,000 tokens, more than a response may have.
"""

import re
from json import JSONDecoder

_NAME = '"logprobs"'
_INPUT_OF_TOOL = '"content_block"'
"""In an event of Anthropic's API, which has no probabilities, an input of a tool may have a field of that
name."""
_TOKEN = (512, 4 * 1024, 16 * 1024)
"""Characters of one token with its alternatives, at most. Twenty of them take 2,000. The lower numbers are
tried first: so many are copied for each token."""
_MAX_TOKENS = 200_000
"""Tokens of one event. A model writes at most 128,000."""
_SPACE = re.compile(r"[ \t\n\r]*")
_raw_decode = JSONDecoder().raw_decode


class _Unusual(Exception):
    """The probabilities are longer or have another form, so they stay."""


def without_probabilities(text: str) -> str:
    """The JSON with an empty list or object for each value of ``logprobs``.

    The text stays unchanged if the values are unusual: it then has to keep the limits of events with them.
    One token is read at a time, so that other threads can run.
    """
    if _NAME not in text or _INPUT_OF_TOOL in text:
        return text
    try:
        return "".join(_Parts(text).kept())
    except _Unusual:
        return text


class _Parts:
    def __init__(self, text: str) -> None:
        self._text, self._tokens = text, 0

    def kept(self) -> list[str]:
        """The parts of the text around the values."""
        text, parts, end = self._text, list[str](), 0
        name = text.find(_NAME)
        while name >= 0:
            colon = self._skip(name + len(_NAME))
            start = self._skip(colon + 1)
            following = start
            # Quotes within strings are escaped, so this can only be a name, or a string that is a value.
            if text[colon : colon + 1] == ":" and text[start : start + 1] in ("[", "{"):
                following = self._end_of_list(start) if text[start] == "[" else self._end(start)
                parts += text[end : start + 1], text[following - 1]
                end = following
            name = text.find(_NAME, following)
        return [*parts, text[end:]]

    def _end_of_list(self, start: int) -> int:
        position = self._skip(start + 1)
        while self._text[position : position + 1] != "]":
            position = self._skip(self._end(position))
            if self._text[position : position + 1] == ",":
                position = self._skip(position + 1)
        return position + 1

    def _end(self, start: int) -> int:
        self._tokens += 1
        if self._tokens > _MAX_TOKENS:
            raise _Unusual
        for most in _TOKEN:
            try:
                _, length = _raw_decode(self._text[start : start + most])
            except (ValueError, RecursionError):
                continue
            if length < most:  # otherwise it may be a part of a number
                return start + length
        raise _Unusual

    def _skip(self, position: int) -> int:
        """The position after whitespace."""
        space = _SPACE.match(self._text, position)
        return space.end() if space else position
