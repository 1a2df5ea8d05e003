"""``playhead worker``: a further worker, in a process of its own."""

import argparse
import signal
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand

from historyapp.management.command_line import add_common_arguments
from historyapp.worker import leave_in_time, prepare, run_worker, stop_worker


class Command(BaseCommand):
    help = "Carry out compressions until Ctrl-C, beside other workers and the one of `playhead up`."

    requires_system_checks = []  # `playhead check` runs them; they cost more than the start does

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_common_arguments(parser, project=False)

    def handle(self, **options: Any) -> None:
        prepare()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _stop)
        broker = "Redis" if settings.REDIS_URL else "the queue in the database"
        self.stdout.write(f"Playhead worker ready: it takes its work from {broker}. Ctrl-C stops it.")
        self.stdout.flush()
        run_worker()


def _stop(number: int, frame: FrameType | None) -> None:
    stop_worker()
    leave_in_time()
