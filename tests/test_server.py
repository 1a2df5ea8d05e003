"""How the server's processes handle signals."""

import subprocess
import sys

from historyapp.server import end_of_web_process

WAITS = """
import signal, threading
from historyapp.processes import handle_signals_at_once

stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())
handle_signals_at_once()
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # another thread is given it
print("ready", flush=True)
stopped.wait()
print("stopped")
"""

OUTLIVES = """
import os, signal, threading
from historyapp.processes import end_with_parent

parent = os.getpid()
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_parent(parent, 0.2)
    threading.Event().wait(60)
os._exit(0)
"""


def test_the_end_of_the_web_process_is_explained() -> None:
    assert "was killed (signal 9, perhaps because memory ran out), so Playhead" in end_of_web_process(-9)
    assert "was killed (signal 11), so Playhead stops" in end_of_web_process(-11)
    assert "ended with exit code 3, so Playhead stops" in end_of_web_process(3)
    assert "Start it again" in end_of_web_process(None)


def test_a_signal_to_another_thread_wakes_the_main_thread_too() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        try:
            assert process.communicate(timeout=20)[0] == "stopped\n"
        finally:
            process.kill()


def test_a_process_that_does_not_stop_after_its_parent_has_ended_is_killed() -> None:
    """Nothing else would end it. Its output ends with it."""
    ended = subprocess.run([sys.executable, "-c", OUTLIVES], capture_output=True, timeout=20, check=True)
    assert ended.stdout == b""
