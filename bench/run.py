"""Runs all measurements one after another: ``make bench``. Close other programs first."""

from bench import append, compressing, contexts, core_import, importing, kills, length, meanwhile
from bench.machinery import machine


def main() -> None:
    print(f"# Measured on {machine()}")
    for measurement in (core_import, append, length, contexts, importing, compressing, meanwhile, kills):
        measurement.main()


if __name__ == "__main__":
    main()
