"""Memory of the process."""

import ctypes
import sys


def return_free_memory() -> None:
    """Gives freed memory back to the system. Otherwise glibc keeps it; other C libraries do without."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim:
        trim(0)
