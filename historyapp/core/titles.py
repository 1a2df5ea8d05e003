"""Finds the distinguishing part of titles that begin with the same words.

>>> titles = [f"You are working on the repository. Issue: {what}" for what in ("typo", "crash", "test")]
>>> [title[begin:] for title, begin in zip(titles, distinct_parts(titles))]
['typo', 'crash', 'test']
"""

from collections.abc import Sequence

MIN_SHARED = 20
"""The least length in characters of a shared beginning that is shortened."""
MANY = 3
"""The least number of different titles that share a beginning."""


def distinct_parts(titles: Sequence[str]) -> list[int]:
    """The start of each title's distinguishing part; 0 if few others share its beginning."""
    ordered = sorted(set(titles))
    begins = dict.fromkeys(ordered, 0)
    for index in range(len(ordered) - MANY + 1):
        alike = ordered[index : index + MANY]
        shared = _shared_words(alike[0], alike[-1])
        for title in alike if shared >= MIN_SHARED else ():
            if title[shared:].strip():
                begins[title] = max(begins[title], shared)
    return [begins[title] for title in titles]


def _shared_words(first: str, last: str) -> int:
    """The length of the shared beginning of two titles, up to its last whole word or path segment."""
    words = 0
    for index, (character, other) in enumerate(zip(first, last, strict=False)):
        if character != other:
            break
        if character in " /\n\t:":
            words = index + 1
    return words
