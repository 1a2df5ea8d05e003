"""The entry point of the parser process. It loads the tokenizer while it imports the rest."""

import pickle
import signal
from multiprocessing.connection import Connection
from threading import Thread

from historyapp.core.vocabularies import tokenizer


def serve(pipe: Connection, pickled: bytes) -> None:
    """Runs a pickled function with the pipe. Unpickling it imports its module, hence only here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that stores
    Thread(target=tokenizer, args=("o200k_base",), daemon=True).start()
    pickle.loads(pickled)(pipe)  # noqa: S301  from the process that started this one
