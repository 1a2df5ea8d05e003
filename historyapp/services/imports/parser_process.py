"""The beginning of the process that reads transcripts: what takes long is begun before all is imported."""

import signal
from multiprocessing.connection import Connection
from threading import Thread

from historyapp.core.vocabularies import tokenizer


def serve(pipe: Connection) -> None:
    """Reads the files that are asked for through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that stores
    Thread(target=tokenizer, args=("o200k_base",), daemon=True).start()

    from historyapp.services.imports.parser import serve_files

    serve_files(pipe)
