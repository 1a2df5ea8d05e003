"""The lines of a request's messages: their text, without the JSON around it."""

from typing import Any

import pytest

from dashboard.rendering.context import readable, request_parts
from historyapp.core.entries import ModelOutput, ToolCall
from historyapp.core.formats import FORMATS
from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.contexts import RequestedContext
from historyapp.services.sessions import create_session
from historyapp.services.snapshots import serve_context
from tests.services.drafts import ask, draft, ok


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "plain"])
def test_a_line_of_a_request_has_the_text_of_its_message(project: Project, format: str) -> None:
    session = create_session(project)
    tool_call = ToolCall(id="call_1", name="shell", arguments={"command": "ls"})
    drafts = [ask("Repair it."), draft(ModelOutput(tool_calls=(tool_call,))), ok("call_1", "a.py")]
    append(project, session.pk, drafts)
    session.refresh_from_db()
    built = serve_context(session, RequestedContext(format=format)).built
    previews = [part.preview for part in request_parts(built)[0]][-3:]
    assert previews[0] == "Repair it."
    assert 'shell {"command":' in previews[1]
    assert "{" not in previews[2]
    assert "a.py" in previews[2]


@pytest.mark.parametrize("depth", [10, 5_000])
def test_a_deeply_nested_message_has_a_line(depth: int) -> None:
    item: Any = {"content": "deep"}
    for _ in range(depth):
        item = {"content": item}
    assert readable(item) == ""
