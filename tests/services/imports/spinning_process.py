"""A parser process whose importer uses up its time or memory at some records, for tests of its limits."""

import time
from collections.abc import Iterator
from itertools import repeat

from historyapp.core.entries import ModelInput, text_of
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Operation, Source
from historyapp.services.imports import parser_process, time_limit

PYTHON, C = "spin in Python", "spin in C"
"""Texts on which it spins: where Python can be interrupted, and where only the kernel can end the process."""
MEMORY = "take memory"
"""A text at which it takes more and more memory."""


def main() -> None:
    importer = IMPORTERS["openai_chat"]
    read = importer.read

    def read_or_spin(self: object, source: Source) -> Iterator[Operation]:
        for operation in read(source):
            yield spin_on_request(operation)

    time_limit.BASE_SECONDS, time_limit.GRACE_SECONDS = 0.5, 0.3
    type(importer).read = read_or_spin  # type: ignore[method-assign]
    parser_process.main()


def spin_on_request(operation: Operation) -> Operation:
    body = operation.draft.body if isinstance(operation, Append) else None
    text = text_of(body.content) if isinstance(body, ModelInput) else ""
    while PYTHON in text:
        pass
    held = []
    while MEMORY in text:
        held.append(bytearray(b"x") * 25_000_000)
        time.sleep(0.05)
    if C in text:
        any(repeat(False))  # never returns, and looks for no signal
    return operation


if __name__ == "__main__":
    main()
