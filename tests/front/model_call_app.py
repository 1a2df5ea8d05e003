"""A process for model calls that runs a small application instead of Playhead.

The path of a request says what the application does, and its body names a file for its report.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from historyapp.front.model_call_process import ModelCallServer, pipe_to_web_process


class SlowStream:
    """A stream that reports that it was closed."""

    streaming = True

    def __init__(self, file: bytes) -> None:
        self._file = Path(file.decode())

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(600):
            yield b"."
            time.sleep(0.05)

    def close(self) -> None:
        self._file.write_text("closed")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
    body = environ["wsgi.input"].read()
    if environ["PATH_INFO"] == "/end":
        os._exit(1)
    if environ["PATH_INFO"] == "/fail":
        raise ValueError("no model call")
    start_response("200 OK", [("X-Process", str(os.getpid()))])
    if environ["PATH_INFO"] == "/stream":
        return SlowStream(body)
    time.sleep(0.3)
    return [body]


if __name__ == "__main__":
    ModelCallServer(application, lambda send, waited: nullcontext()).serve(
        pipe_to_web_process(), float(sys.argv[3])
    )
