"""The example loops of the docs run as written for many steps. Every request contains the task."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from tests.api.test_contexts_page import loop as loop_of_contexts
from tests.client.test_docs import EXAMPLES, reader
from tests.llm.loopback import Answer, Call, Loopback, Recorded

__all__ = ["reader"]
STEPS = 7
NOTES = "milk, bread\n" * 700
"""Too much to be sent seven times within a budget of 8,000 tokens."""
TASKS = {
    "openai_agent.py": "What is on my list?",
    "anthropic_agent.py": "What is on my list, and on the other one?",
    "streaming_agent.py": "What is on my list?",
    "any_model_agent.py": "What is on my list?",
    "contexts.md": "Why does test_parser.py fail? Read what you need.",
}
CODE = {**{example.name: example.code for example in EXAMPLES}, "contexts.md": loop_of_contexts()}


def user_texts(body: dict[str, Any]) -> list[str]:
    """The user's texts in a request, in any provider's shape."""
    messages = body["messages"] if "messages" in body else body["input"]
    contents = [message.get("content") for message in messages if message.get("role") == "user"]
    parts = [part for content in contents for part in (content if isinstance(content, list) else [content])]
    return [part if isinstance(part, str) else str(part.get("text", "")) for part in parts]


@pytest.mark.parametrize(("name", "address"), [*((name, "") for name in TASKS), ("contexts.md", "/api/v1")])
def test_every_request_contains_the_task(
    name: str,
    address: str,
    reader: Loopback,
    live_server: LiveServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLAYHEAD", live_server.url + address)
    (tmp_path / "notes.txt").write_text(NOTES)

    def read_on(request: Recorded) -> Answer:
        number = len(reader.requests)
        if number > STEPS:
            return Answer(text="That is all.")
        return Answer(text="On.", calls=(Call(f"call_{number}", "read_file", '{"path": "notes.txt"}'),))

    reader.default = read_on
    exec(compile(CODE[name], name, "exec"), {"__name__": "__main__"})
    assert len(reader.requests) > STEPS
    missing = [
        number
        for number, request in enumerate(reader.requests, start=1)
        if TASKS[name] not in "\n".join(user_texts(request.body))
    ]
    assert missing == []
    whole = json.dumps(reader.requests[STEPS - 1].body)
    assert whole.count("milk, bread") < STEPS * 700  # older steps really were left out or summarised
