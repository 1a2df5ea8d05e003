"""Memory of the process."""

import ctypes
import sys


def return_free_memory() -> None:
    """Returns freed memory to the system, which glibc otherwise keeps. Does nothing with other C
    libraries."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim:
        trim(0)
