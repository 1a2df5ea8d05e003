"""Loads and releases the tables of OpenAI's tokenizers, which are part of the ``toktok-rs`` package.

They take 33 MB, and 44 MB while loading, which takes 0.5 s and does not block other threads. An idle process
can release them. Versions of the package after 0.1.3 also have caches of 34 MB that cannot be released.
"""

import time
from threading import Lock
from typing import Any, Literal

EncodingName = Literal["o200k_base", "cl100k_base"]

_loaded: dict[EncodingName, Any] = {}
_last_use = 0.0
_loading = Lock()


def tokenizer(encoding: EncodingName) -> Any:
    """The tokenizer of an encoding, loaded at its first use. It may be shared by threads."""
    global _last_use
    _last_use = time.monotonic()
    loaded = _loaded.get(encoding)
    if loaded is None:
        with _loading:
            loaded = _loaded.get(encoding)
            if loaded is None:
                # Its public batch_count starts a pool, which costs five times as much as counting one text.
                # The class is private, but toktok never releases a tokenizer. pyproject.toml pins toktok.
                from toktok._toktok import Tokenizer

                loaded = _loaded[encoding] = Tokenizer(encoding, "")
    return loaded


def release_unused(seconds: float) -> bool:
    """Deletes tables that were not used for this long. Returns whether there were any."""
    if not _loaded or time.monotonic() < _last_use + seconds:
        return False
    _loaded.clear()
    return True
