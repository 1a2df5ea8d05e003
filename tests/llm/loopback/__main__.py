"""Serves the loopback until it is interrupted."""

import argparse
import contextlib
import sys
import threading

from tests.llm.loopback.server import Loopback


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.llm.loopback", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    arguments = parser.parse_args()
    with Loopback(port=arguments.port) as loopback:
        for name, value in loopback.environment.items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
