"""Replaces spaCy in processes that a test starts: a sentence ends at a full stop, and there are no names.

Loading spaCy costs processor time in each worker and writer process. What they do with messages, signals or
a database does not depend on how they find sentences. See ``light_processes`` in ``tests/installation.py``.
"""

import re
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace


class Pipeline:
    def add_pipe(self, name: str) -> None:
        assert name == "sentencizer"

    def memory_zone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def __call__(self, text: str) -> SimpleNamespace:
        ends = [match.end() for match in re.finditer(r"[.!?](?=\s)|$", text)]
        return SimpleNamespace(sents=[SimpleNamespace(end_char=end) for end in ends])


def blank(code: str) -> Pipeline:
    return Pipeline()


util = SimpleNamespace(is_package=lambda name: False)
