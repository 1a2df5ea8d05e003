"""Runs all measurements one after another: ``make bench``. Close other programs first."""

from bench import append, contexts, core_import, importing, length
from bench.machinery import machine


def main() -> None:
    print(f"# Measured on {machine()}")
    for measurement in (core_import, append, length, contexts, importing):
        measurement.main()


if __name__ == "__main__":
    main()
