"""Waits for commands that still run have the names of these commands."""

from historyapp.core.overview.figures import dump_figures, load_figures
from historyapp.core.overview.running import MAX_RUNNING
from tests.core.overview.runs import Run

STARTED = "Chunk ID: 1\nWall time: 1.0 seconds\nProcess running with session ID {}\nOutput:\n"


def test_a_wait_has_the_name_of_its_command_and_input_for_it_has_not() -> None:
    run = Run().ask().call("exec_command", cmd="make all").ok(STARTED.format(7), after=1)
    run.call("exec_command", cmd="cat log").ok("a line\n" * 60 + STARTED.format(8))
    run.call("write_stdin", session_id=7, chars="y").ok(STARTED.format(7))
    run.call("write_stdin", session_id=7, chars="").ok(STARTED.format(7), after=30)
    run.call("write_stdin", session_id=8, chars="").ok(after=2)
    run.call("write_stdin", session_id=7, chars="\x03").ok(after=3)
    run.call("exec_command", cmd="make again").ok(STARTED.format(7))
    run.call("write_stdin", session_id=7).ok(after=4)
    figures = load_figures(dump_figures(run.figures))
    slowest = [step.target for step in figures.slowest[:4]]
    assert slowest == ["wait for make all", "wait for make again", "\x03", ""]
    waits = {command: runs.steps for command, runs in figures.commands.items() if "wait" in command}
    assert waits == {"wait for make all": [4], "wait for make again": [8]}


def test_the_newest_running_commands_are_remembered() -> None:
    run = Run().ask()
    for id in range(MAX_RUNNING + 1):
        run.call("exec_command", cmd=f"make {id}").ok(STARTED.format(id))
    for id in (0, MAX_RUNNING):
        run.call("write_stdin", session_id=id).ok()
    assert [name for name in run.figures.commands if name.startswith("wait")] == [
        f"wait for make {MAX_RUNNING}"
    ]
