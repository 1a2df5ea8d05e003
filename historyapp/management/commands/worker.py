"""``playhead worker``: runs a worker process."""

import argparse
import signal
import threading
from types import FrameType
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management import CommandError

from historyapp.management.command_line import PlayheadCommand
from historyapp.models import Worker
from historyapp.processes import end_with_parent
from historyapp.services.workers import worker_host
from historyapp.worker import STOP_SECONDS, leave, prepare, run_worker, stop_worker


class Command(PlayheadCommand):
    help = "Run a worker until Ctrl-C, in addition to the worker that `playhead up` starts."
    in_project = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--check",
            action="store_true",
            help="only check whether a worker on this host reported within the last minute",
        )
        parser.add_argument("--on-demand", type=UUID, metavar="ID", help=argparse.SUPPRESS)
        parser.add_argument("--parent", type=int, metavar="PID", help=argparse.SUPPRESS)

    def handle(self, *, check: bool, on_demand: UUID | None, parent: int | None, **options: Any) -> None:
        if check:
            if not Worker.objects.alive().filter(host=worker_host()).exists():
                raise CommandError(f"No worker on {worker_host()} has reported within a minute.")
            return
        if parent:
            end_with_parent(parent)
        if not on_demand:
            prepare()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _stop)
        broker = "Redis" if settings.REDIS_URL else "the queue in the database"
        self.stdout.write(f"Playhead worker ready: it takes its work from {broker}. Ctrl-C stops it.")
        self.stdout.flush()
        run_worker(on_demand, settings.PLAYHEAD_IDLE_SECONDS if on_demand else None)


def _stop(number: int, frame: FrameType | None) -> None:
    stop_worker()
    timer = threading.Timer(STOP_SECONDS, leave)
    timer.daemon = True
    timer.start()
