"""A process for large requests that runs a small application instead of Playhead, and so starts quickly.

The path of a request says what the application does.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from historyapp.child import pipe_to_parent
from historyapp.front import request_process
from historyapp.front.request_process import RequestServer

kept = list[bytes]()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = environ["wsgi.input"].read()
    match environ["PATH_INFO"]:
        case "/compute":
            while True:
                pass
        case "/fill":
            kept.append(b"x" * int(body))
        case "/end":
            os._exit(1)
        case "/wait":
            with server.lending_thread():
                time.sleep(float(body))
        case "/written":
            server.send("written")
            os._exit(1)
    server.send("owner", b"alice")
    server.send("count", ("count_entries", 3))
    start_response("201 Created", [("X-Process", str(os.getpid()))])
    return [body, b"!"]


setattr(request_process, "max_processor_seconds", lambda _: 0.2)  # noqa: B010 mypy: it is imported there
server = RequestServer(pipe_to_parent(sys.argv[1:]), application)

if __name__ == "__main__":
    server.serve(float(sys.argv[3]), lambda waited: nullcontext())
