"""The time of ``import historyapp.core``, also with all its modules. Checks that Django is not imported."""

import statistics
import subprocess
import sys
import time

from bench.machinery import ROOT, report

CODE = """
import pkgutil, sys, importlib, historyapp.core as core
for module in pkgutil.walk_packages(core.__path__, "historyapp.core."):
    importlib.import_module(module.name)
assert "django" not in sys.modules
"""


def main(rounds: int = 15) -> None:
    times = {name: _median(code, rounds) for name, code in _CODES.items()}
    rows = [(name, f"{times[name]:.0f} ms", bound) for name, bound in zip(times, _BOUNDS, strict=True)]
    report("Importing the core", rows)


_CODES = {
    "python itself": "pass",
    "import historyapp.core.entries (pydantic and the entries)": "import historyapp.core.entries",
    "import historyapp.core": "import historyapp.core",
    "every module of the core": CODE,
}
_BOUNDS = ("", "", "150 ms", "")


def _median(code: str, rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        taken.append((time.perf_counter() - begin) * 1000)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
