"""The entry point of the parser process. It loads the tokenizer while it imports the rest."""

import signal
from multiprocessing.connection import Connection
from threading import Thread

from historyapp.core.vocabularies import tokenizer


def serve(pipe: Connection) -> None:
    """Parses the files requested through the pipe until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that stores
    Thread(target=tokenizer, args=("o200k_base",), daemon=True).start()

    from historyapp.services.imports.parser import serve_files

    serve_files(pipe)
