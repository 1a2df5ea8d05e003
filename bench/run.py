"""Runs all measurements one after another: ``make bench``. Close other programs first."""

from bench import (
    append,
    batches,
    comparing,
    compressing,
    contexts,
    core_import,
    footprint,
    importing,
    incoming,
    kills,
    kills_compressing,
    length,
    meanwhile,
    memory,
    overview,
    pages,
    stalled,
    waking,
)
from bench.machinery import machine


def main() -> None:
    print(f"# Measured on {machine()}")
    first = (core_import, memory, append, batches, footprint, length, contexts, overview, pages, importing)
    for measurement in (
        *first,
        comparing,
        waking,
        incoming,
        compressing,
        meanwhile,
        stalled,
        kills,
        kills_compressing,
    ):
        measurement.main()


if __name__ == "__main__":
    main()
