"""``playhead worker``: a further worker, in a process of its own."""

import argparse
import signal
from types import FrameType
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management import BaseCommand

from historyapp.management.command_line import add_common_arguments
from historyapp.processes import end_with_parent
from historyapp.worker import leave_in_time, prepare, run_worker, stop_worker


class Command(BaseCommand):
    help = "Carry out compressions until Ctrl-C, beside other workers and the one of `playhead up`."

    requires_system_checks = []  # `playhead check` runs them; they cost more than the start does

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_common_arguments(parser, project=False)
        parser.add_argument("--on-demand", type=UUID, metavar="ID", help=argparse.SUPPRESS)
        parser.add_argument("--parent", type=int, metavar="PID", help=argparse.SUPPRESS)

    def handle(self, *, on_demand: UUID | None, parent: int | None, **options: Any) -> None:
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
    leave_in_time()
