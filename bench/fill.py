"""Creates sessions of a given length through the services. Runs inside Django."""

import json

from bench.machinery import action, result
from historyapp.core.actions import ActionProposal, output_of
from historyapp.core.entries import EntryDraft, ModelInput, ToolResult, ToolResults
from historyapp.services.append import append
from historyapp.services.bootstrap import default_project
from historyapp.services.sessions import create_session

BATCH = 1000
TASK = "Find out why the parser drops the last line, and make its tests pass."


def fill(lengths: tuple[int, ...]) -> None:
    """Prints the sessions' ids as JSON."""
    project = default_project()
    ids = []
    for length in lengths:
        session = create_session(project, names={"title": f"{length} steps"})
        append(project, session.pk, [EntryDraft(ModelInput(content=TASK))])
        for start in range(0, length, BATCH):
            numbers = range(start, min(length, start + BATCH))
            append(project, session.pk, [draft for number in numbers for draft in step(number)])
        ids.append(str(session.pk))
    print(json.dumps(ids))


def step(number: int) -> tuple[EntryDraft, EntryDraft]:
    """An action and its result. Every tenth step fails."""
    if number % 10:
        tool_result = ToolResult(tool_name="search", status="success", outputs=result(number)["outputs"])
    else:
        tool_result = ToolResult(tool_name="search", status="error", reason="no such file")
    proposal = ActionProposal.model_validate(action(number))
    return EntryDraft(output_of(proposal)), EntryDraft(ToolResults(results=(tool_result,)))
