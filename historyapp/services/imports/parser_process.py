"""The parser process: ``python -m historyapp.services.imports.parser_process PIPE PARENT IDLE_SECONDS``.

It loads the tokenizer while it imports the other modules.
"""

import sys
from threading import Thread

from historyapp.child import pipe_to_parent
from historyapp.core.vocabularies import tokenizer


def main() -> None:
    pipe = pipe_to_parent(sys.argv[1:])
    Thread(target=tokenizer, args=("o200k_base",), daemon=True).start()
    from historyapp.services.imports.parser import serve_files

    serve_files(pipe, float(sys.argv[3]))


if __name__ == "__main__":
    main()
