"""Replaces the tokenizer in processes that a test starts: every four characters count as a token.

Loading a tokenizer's tables takes half a second of processor time in each process. How a process starts, is
killed or continues does not depend on the number of tokens. See ``light_processes`` in
``tests/installation.py``.
"""


class Tokenizer:
    def __init__(self, encoding: str, folder: str) -> None:
        pass

    def count(self, text: str) -> int:
        return (len(text) + 3) // 4
