"""How the web process runs Python: switches between threads and collects garbage."""

import gc
import sys

from historyapp.core.process_memory import return_free_memory

SWITCH_SECONDS = 0.001
"""A computing thread lets other threads run after this time. An append waits for the disk many times. With
Python's default, each wait would take 5 ms longer while an export is written.
"""
COLLECT_AFTER = 2000
"""The garbage collector runs after this many new objects. Cycles of garbage can hold long bodies.
With Python's default of 700 it runs several times in each POST of 100 steps. Imported modules are frozen,
because collecting them stopped all threads for 75 ms.
"""


def tune_interpreter() -> None:
    """Prepares Python for serving. Called after all modules are imported."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    return_free_memory()  # importing leaves 5 MB
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
