"""Records the demo on a server: ``python -m historyapp.demo ADDRESS``, with an API key on standard input."""

import sys

from historyapp.demo import DemoFailed, run


def main() -> None:
    try:
        run(sys.argv[1], sys.stdin.read().strip())
    except (DemoFailed, OSError) as error:
        print(f"The demo could not be loaded: {error}")  # noqa: T201 the parent prints it
        sys.exit(1)


if __name__ == "__main__":
    main()
