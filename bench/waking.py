"""The time from a message to the start of its task, and the cost of a waiting worker, without Redis."""

import os
import statistics
import subprocess
import sys
import time

import psutil

from bench.machinery import ROOT, home, report

_WORKER = """
import time, django; django.setup()
from historyapp.celery import app
from historyapp.worker import run_worker
@app.task(name="stamp")
def stamp(sent): print(time.time() - sent, flush=True)
print("ready", flush=True)
run_worker()
"""
_SENDER = """
import random, sys, time, django; django.setup()
from historyapp.celery import app
for _ in range(int(sys.argv[1])):
    app.send_task("stamp", [time.time()])
    time.sleep(random.uniform(0.15, 0.45))
"""


def main(messages: int = 100, idle: float = 15) -> None:
    with home() as folder:
        environment = {
            **os.environ, "PLAYHEAD_HOME": str(folder), "REDIS_URL": "",
            "DJANGO_SETTINGS_MODULE": "historyapp.settings",
        }  # fmt: skip
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        worker = subprocess.Popen(
            [sys.executable, "-c", _WORKER], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        try:
            worker.stdout.readline()
            time.sleep(3)
            share = _processor_share(psutil.Process(worker.pid), idle)
            sender = [sys.executable, "-c", _SENDER, str(messages)]
            subprocess.run(sender, cwd=ROOT, env=environment, check=True)
            waits = sorted(1000 * float(worker.stdout.readline()) for _ in range(messages))
        finally:
            worker.kill()
            worker.wait()
    median, p95 = statistics.median(waits), waits[int(0.95 * messages)]
    rows = [
        ("from sending a message to the start of its task", f"{median:.0f} ms, 95 % within {p95:.0f} ms", ""),
        ("processor time of a waiting worker", f"{100 * share:.1f} % of a core", ""),
    ]
    report("Waking a worker through the queue in the database", rows)


def _processor_share(process: psutil.Process, seconds: float) -> float:
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return float(after.user + after.system - before.user - before.system) / seconds


if __name__ == "__main__":
    main()
