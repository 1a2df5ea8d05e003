"""Every real transcript is imported completely: its counts equal those computed from the JSON."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Operation
from historyapp.core.importers.records import SourceRecord, read_lines
from tests.core.importers.reading import calls_in, metadata, outputs, read_path, results, skipped, starts
from tests.examples import thorough
from tests.shared import SHARED, needs

CORPUS = SHARED / "corpus"
FOLDERS = {
    "swe_agent_traj": "swe_agent",
    "mini_swe_agent": "mini_swe_agent",
    "openhands": "openhands",
    "openai_chat": "openai_chat",
    "anthropic_messages": "anthropic_messages",
    "gemini_cli": "gemini_cli",
}
FILES = [(path, name) for folder, name in FOLDERS.items() for path in sorted((CORPUS / folder).rglob("*.*"))]
LARGE = 250_000
"""Bytes. The counts of larger files are compared, but no other rule is tested with them."""
IDS = [path.name for path, _ in FILES]
EVERY_FILE = pytest.mark.parametrize(("path", "name"), FILES, ids=IDS)
SMALL_FILES = pytest.mark.parametrize(
    ("path", "name"),
    [thorough(path, name) if path.stat().st_size >= LARGE else (path, name) for path, name in FILES],
    ids=IDS,
)
"""``make test-all`` adds the large ones."""

pytestmark = needs("corpus")

Expected = dict[str, int]
"""``sessions``, ``outputs``, ``calls``, ``results`` and ``errors``, as far as the source shows them."""


def swe_agent(document: Any) -> Expected:
    steps = len(document["trajectory"])
    return {"sessions": 1, "outputs": steps, "calls": steps, "results": steps, "errors": 0}


def mini_swe_agent(document: Any) -> Expected:
    messages = document if isinstance(document, list) else document["messages"]
    roles = Counter(message["role"] for message in messages)
    if isinstance(document, list):
        failed = [m for m in messages if m["role"] == "user" and m["content"].startswith("<returncode>1")]
        answers = roles["user"] - 1
    else:
        failed = [m for m in messages if m["role"] == "tool" and m["extra"]["returncode"] != 0]
        answers = roles["tool"] + roles["exit"]
    assistants = roles["assistant"]
    return {
        "sessions": 1,
        "outputs": assistants,
        "calls": assistants,
        "results": answers,
        "errors": len(failed),
    }


def openhands(document: Any) -> Expected:
    if isinstance(document, dict):
        return {"sessions": 0, "outputs": 0, "calls": 0, "results": 0, "errors": 0}
    if "kind" in document[0]:
        actions = [event for event in document if event["kind"] == "ActionEvent"]
        observations = [event["observation"] for event in document if event["kind"] == "ObservationEvent"]
        # Only a terminal has an exit code; an editor, a task list and a finish have none.
        failed = [o for o in observations if o["is_error"] or o.get("exit_code") not in (None, 0)]
        messages = [e for e in document if e["kind"] == "MessageEvent" and e["source"] == "agent"]
        return {
            "sessions": 1,
            "outputs": len({action["llm_response_id"] for action in (*actions, *messages)}),
            "calls": len(actions),
            "results": len(observations),
            "errors": len(failed),
        }
    actions = [event for event in document if "action" in event and event["source"] == "agent"]
    answers = {a["tool_call_metadata"]["model_response"]["id"] for a in actions}
    observations = [event for event in document if "observation" in event]
    return {
        "sessions": 1,
        "outputs": len(answers),
        "calls": len(actions),
        "results": len(observations),
        "errors": 0,
    }


def openai_chat(document: Any) -> Expected:
    if isinstance(document, list) and "request" in document[0]:
        document = [call for call in document if "messages" in call["request"]]
        messages = [*document[-1]["request"]["messages"], document[-1]["response"]["choices"][0]["message"]]
        return of_chats([messages])
    if isinstance(document, list) and "role" in document[0]:
        return of_chats([document])
    if isinstance(document, dict) and "messages" in document:
        logged = document["raw_messages" if "raw_messages" in document else "messages"]
        return of_chats([[*logged, document["response"]["choices"][0]["message"]]])
    runs = document if isinstance(document, list) else [document]
    return of_chats([run["traj"] for run in runs])


def of_chats(chats: list[list[dict[str, Any]]]) -> Expected:
    messages = list(chain.from_iterable(chats))
    answers = [m for m in messages if m["role"] == "tool"]
    return {
        "sessions": len(chats),
        "outputs": sum(m["role"] == "assistant" for m in messages),
        "calls": sum(len(m.get("tool_calls") or []) for m in messages),
        "results": len(answers),
        "errors": sum(str(m["content"]).startswith("Error:") for m in answers),
    }


def anthropic_messages(document: Any) -> Expected:
    """Files of recorded calls: each conversation is as long as the last call with its first question."""
    last: dict[str, Any] = {}
    for call in document:
        if "messages" in call["request"]:
            last[json.dumps(call["request"]["messages"][0])] = call
    contents = [m["content"] for call in last.values() for m in call["request"]["messages"]]
    contents += [call["response"]["content"] for call in last.values() if isinstance(call["response"], dict)]
    kinds = Counter(block["type"] for content in contents if isinstance(content, list) for block in content)
    for call in last.values():
        if isinstance(call["response"], str):  # an event stream, counted without reading it
            kinds["server_tool_use"] += call["response"].count('"type":"server_tool_use"')
            kinds["web_search_tool_result"] += call["response"].count('"type":"web_search_tool_result"')
    return {
        "sessions": len(last),
        "calls": kinds["tool_use"] + kinds["server_tool_use"],
        "results": sum(number for kind, number in kinds.items() if kind.endswith("tool_result")),
    }


def gemini_cli(document: Any) -> Expected:
    answers = [message for message in document["messages"] if message["type"] == "gemini"]
    calls = [call for answer in answers for call in answer.get("toolCalls", ())]
    return {
        "sessions": 1,
        "outputs": len(answers),
        "calls": len(calls),
        "results": len(calls),
        "errors": sum(call["status"] == "error" for call in calls),
    }


COUNTED: dict[str, Callable[[Any], Expected]] = {
    "swe_agent": swe_agent,
    "mini_swe_agent": mini_swe_agent,
    "openhands": openhands,
    "openai_chat": openai_chat,
    "anthropic_messages": anthropic_messages,
    "gemini_cli": gemini_cli,
}


def load(path: Path) -> Any:
    if (
        path.suffix == ".jsonl" and path.parent.name != "gemini_cli"
    ):  # its files are documents, despite the name
        with path.open("rb") as stream:
            return [line.data for line in read_lines(stream) if isinstance(line, SourceRecord)]
    return json.loads(path.read_bytes())


def counted(operations: list[Operation]) -> Expected:
    return {
        "sessions": len(starts(operations)),
        "outputs": len(outputs(operations)),
        "calls": calls_in(operations),
        "results": len(results(operations)),
        "errors": sum(result.status == "error" for result in results(operations)),
    }


@EVERY_FILE
def test_nothing_of_a_real_transcript_is_lost(path: Path, name: str) -> None:
    expected = COUNTED[name](load(path))
    counts = counted(read_path(IMPORTERS[name], path))
    assert {figure: counts[figure] for figure in expected} == expected


@SMALL_FILES
def test_only_records_that_belong_elsewhere_are_skipped(path: Path, name: str) -> None:
    assert not [item for item in skipped(read_path(IMPORTERS[name], path)) if item.damaged]


@SMALL_FILES
def test_reading_twice_gives_the_same(path: Path, name: str) -> None:
    assert read_path(IMPORTERS[name], path) == read_path(IMPORTERS[name], path)


@SMALL_FILES
def test_every_result_with_an_id_answers_a_call_before_it(path: Path, name: str) -> None:
    if path.name == "sdk_v1__goal_events.jsonl":
        pytest.skip("one of its actions is missing from the file")
    called: set[str | None] = {None}
    for operation in read_path(IMPORTERS[name], path):
        if isinstance(operation, Append):
            called |= {call.id for call in getattr(operation.draft.body, "tool_calls", ())}
            for result in getattr(operation.draft.body, "results", ()):
                assert result.tool_call_id in called


@pytest.mark.parametrize("path", [path for path, name in FILES if name == "mini_swe_agent"], ids=str)
def test_costs_and_calls_of_mini_swe_agent_add_up_to_its_totals(path: Path) -> None:
    document = load(path)
    if isinstance(document, list):
        pytest.skip("it says nothing of costs")
    entry_metadata = metadata(read_path(IMPORTERS["mini_swe_agent"], path))
    stats = document["info"]["model_stats"]
    lost = stats["api_calls"] - sum("usage" in entry for entry in entry_metadata)
    assert lost == sum(m["role"] == "user" and "extra" in m for m in document["messages"])
    if not lost:
        assert sum(entry.get("cost", 0) for entry in entry_metadata) == pytest.approx(stats["instance_cost"])
