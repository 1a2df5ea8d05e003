"""How the server's processes handle signals."""

import subprocess
import sys

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


def test_a_signal_to_another_thread_wakes_the_main_thread_too() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        try:
            assert process.communicate(timeout=20)[0] == "stopped\n"
        finally:
            process.kill()
