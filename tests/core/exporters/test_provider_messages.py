"""The importers can read both exports of provider messages."""

import json
from typing import Any

import pytest
from hypothesis import given

from historyapp.core.entries import Body, Entry, ModelInput, ModelOutput, SystemInstruction, ToolCall
from historyapp.core.exporters import EXPORTERS
from historyapp.core.exporters.base import ExportSession
from historyapp.core.importers import IMPORTERS, detect
from tests.core.entries import LIVE, result, session
from tests.core.formats.rules import check_anthropic, check_openai
from tests.core.importers.reading import bodies, read, source

CONVERSATION: list[Body] = [
    SystemInstruction(text="Be brief."),
    ModelInput(content="hi 😀"),
    ModelOutput(
        text="I look.",
        tool_calls=(ToolCall(id="a", name="look", arguments={"at": 1}), ToolCall(id="b", name="look")),
    ),
    result("a", "here", tool_name="look"),
    result("b", status="error", outputs=None, reason="no", tool_name="look"),
    ModelOutput(text="Done."),
]


def written(name: str, entries: list[Entry], **fields: Any) -> str:
    return "".join(EXPORTERS[name].write(ExportSession("s", entries, **fields)))


@given(LIVE)
def test_any_session_is_exported_as_a_valid_openai_request(entries: list[Entry]) -> None:
    check_openai(json.loads(written("openai_messages", entries))["messages"])


@given(LIVE)
def test_any_session_is_exported_as_a_valid_anthropic_request(entries: list[Entry]) -> None:
    document = json.loads(written("anthropic_messages", entries))
    check_anthropic(document["messages"], document["system"])


def test_an_empty_session_is_an_empty_conversation() -> None:
    assert json.loads(written("openai_messages", [], model="m")) == {"model": "m", "messages": []}
    assert json.loads(written("anthropic_messages", [], model="\ud800")) == {
        "model": "\ufffd", "messages": [], "system": [],
    }  # fmt: skip


def test_an_openai_export_is_imported_as_the_same_conversation() -> None:
    text = written("openai_messages", session(*CONVERSATION))
    assert detect(source(text)).name == "openai_chat"
    imported = bodies(read(IMPORTERS["openai_chat"], text))
    # Chat messages do not say that a result was an error.
    failed = result("b", "no", tool_name="look")
    assert imported == [*CONVERSATION[:4], failed, CONVERSATION[5]]


def test_an_anthropic_export_is_imported_as_the_same_conversation() -> None:
    text = written("anthropic_messages", session(*CONVERSATION))
    assert detect(source(text)).name == "anthropic_messages"
    imported = bodies(read(IMPORTERS["anthropic_messages"], text))
    assert [*imported[:3], imported[-1]] == [*CONVERSATION[:3], CONVERSATION[5]]
    assert imported[3].model_dump()["results"] == tuple(
        one for body in CONVERSATION[3:5] for one in body.model_dump()["results"]
    )


@pytest.mark.parametrize("name", ["openai_messages", "anthropic_messages", "markdown"])
def test_exporters_of_conversations_use_only_live_entries(name: str) -> None:
    assert EXPORTERS[name].live_only


def test_every_exporter_is_registered_under_its_name() -> None:
    assert all(exporter.name == name for name, exporter in EXPORTERS.items())
    assert len({exporter.suffix for exporter in EXPORTERS.values()}) == len(EXPORTERS)
