"""The stored state of a run stays small, however long the texts of its entries are."""

from typing import Any

import pytest

from historyapp.core.entries import ModelOutput, UseTool
from historyapp.core.overview.figures import dump_figures
from tests.core.overview.runs import Run

LONG = "x/y_" * 25_000
STEPS = 12
ARGUMENTS = (
    "path file_path paths files dir_path notebook_path command cmd cwd workdir query pattern url "
    "description prompt input patch old_string new_string content session_id process_id shell_id "
    "task_id id resume subagent_type edits view_range"
)
TOOLS = "Bash exec_command write_stdin BashOutput Read open Edit str_replace_editor apply_patch Grep Task"


@pytest.mark.parametrize("name", TOOLS.split())
def test_long_arguments_and_results_take_little_room(name: str) -> None:
    run = Run()
    for number in range(STEPS):
        arguments: dict[str, Any] = dict.fromkeys(ARGUMENTS.split(), f"{number} {LONG}")
        run.call(name, **arguments)
        text = f"Process running with session ID {number} {LONG}"
        run = run.failed(text) if number % 3 else run.ok(text)
    assert len(dump_figures(run.figures)) < 30_000


def test_long_names_of_tools_models_and_notes_take_little_room() -> None:
    """Eight models with names of 8 MB made a checkpoint of 72 MB, written while the database was locked."""
    run = Run()
    for number in range(STEPS):
        names: dict[str, Any] = dict.fromkeys(("model", "id", "stop_reason", "provider"), f"{number} {LONG}")
        run.add(ModelOutput(use_tool=UseTool(name=f"{number} {LONG}")), **names, source={"window": 1_000})
        run.ok()
        run.note(f"{number} {LONG}")
    assert next(iter(run.figures.sizes.windows)).startswith("0 x/y_")
    assert len(dump_figures(run.figures)) < 30_000
