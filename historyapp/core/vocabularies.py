"""The tables of OpenAI's tokenizers, which the ``toktok-rs`` package brings along.

Apart from counting, because loading takes some tenths of a second and lets other threads run: a process that
is going to count can begin with it before it has imported anything else.
"""

from threading import Lock
from typing import Any, Literal

EncodingName = Literal["o200k_base", "cl100k_base"]

_loaded: dict[EncodingName, Any] = {}
_loading = Lock()


def tokenizer(encoding: EncodingName) -> Any:
    """The tokenizer of an encoding, loaded at its first use. It may be shared by threads."""
    if encoding not in _loaded:
        with _loading:
            if encoding not in _loaded:
                # Its public batch_count starts a pool, which costs five times as much as counting one text.
                # This is documented as it is here, but private: pyproject.toml admits patches only.
                from toktok import _encoding

                _loaded[encoding] = _encoding(encoding)
    return _loaded[encoding]
