"""Instructions of an append, here and in other checkouts: ``python -m bench.append_instructions ../before``.

Milliseconds of two commits differ by more from run to run than by what one request does. Valgrind counts the
instructions of the handler and of SQLite, which two runs repeat to a thousandth. Waiting and the server's
own work are not counted. Needs Debian's package ``valgrind``. Each checkout takes a minute.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.machinery import ROOT, report

STEPS = 60
WORK = """
import json, os, subprocess, sys
import django
django.setup()
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from historyapp import wsgi  # sets the limits of a web process
from historyapp.models import Project
from historyapp.services.keys import create_key

sys.path.append(sys.argv[1])
from bench.machinery import action, result

call_command("migrate", verbosity=0)
settings.ALLOWED_HOSTS = ["*"]
key = create_key(Project.objects.create(name="bench"), "bench", scopes=("read", "write", "admin"))[1]
client = Client(headers={"Authorization": f"Bearer {key}"})

def post(path, body):
    response = client.post(f"/api/v1/sessions{path}", json.dumps(body), content_type="application/json")
    assert 200 <= response.status_code < 300, response.content
    return response.json()

session = post("", {})["id"]
for number in range(8 + int(sys.argv[2])):
    if number == 8:  # everything is loaded
        subprocess.run(["callgrind_control", "-i", "on", str(os.getpid())], check=True, stdout=-3)
    post(f"/{session}/actions", action(number))
    post(f"/{session}/results", result(number))
"""


def instructions(checkout: Path) -> float:
    """Millions of instructions of an action and its result in two POSTs."""
    home = Path(tempfile.mkdtemp())
    counts = home / "callgrind.out"
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "historyapp.settings",
        "PLAYHEAD_HOME": str(home),
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": str(checkout),
    }
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={counts}"]
    work = [sys.executable, "-c", WORK, str(ROOT), str(STEPS)]
    try:
        done = subprocess.run(
            [*valgrind, *work], cwd=checkout, env=environment, capture_output=True, text=True
        )
        match = re.search(r"^totals: (\d+)", counts.read_text(), re.MULTILINE)
        if done.returncode or not match:
            raise SystemExit(f"{checkout}: {done.stderr[-2000:]}")
        return int(match[1]) / STEPS / 1e6
    finally:
        shutil.rmtree(home)


def main(others: list[str]) -> None:
    own = instructions(ROOT)
    rows = [("here", f"{own:.2f} million", "")]
    for other in others:
        before = instructions(Path(other).resolve())
        rows += [
            (other, f"{before:.2f} million", ""),
            ("**difference**", f"**{own / before - 1:+.1%}**", "3 %"),
        ]
    report("Instructions of a durable action + result, in the handler and SQLite", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
