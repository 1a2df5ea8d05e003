"""Serves the loopback until it is interrupted."""

import argparse
import contextlib
import sys
import threading
import time

from tests.llm.loopback.script import Answer
from tests.llm.loopback.server import Loopback


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.llm.loopback", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    arguments = parser.parse_args()
    with Loopback(port=arguments.port) as loopback:
        loopback.default = lambda _: _answer(arguments.latency)
        for name, value in loopback.environment.items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def _answer(latency: float) -> Answer:
    time.sleep(latency)
    return Answer(text="All is well.", sizes=(1000,))


if __name__ == "__main__":
    main()
