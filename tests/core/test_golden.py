"""The core gives the results of the earlier episodic history, for every recorded list of operations."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter

from historyapp.core.actions import ActionProposal, ActionResult, as_tool_result, output_of
from historyapp.core.conversation import InputMessage
from historyapp.core.entries import Entry, ToolResults
from historyapp.core.episodes import Episode, episode_of
from historyapp.core.messages import episodic_messages
from historyapp.core.policies.base import Origin
from historyapp.core.progress import compile_progress
from historyapp.core.rendering import as_list, as_paragraphs, long_form
from historyapp.core.results import result_text
from historyapp.core.settings import SessionSettings
from tests.golden import COUNTERS, PATH, cases, records
from tests.shared import needs

pytestmark = needs(PATH)
RESULT: TypeAdapter[Any] = TypeAdapter(ActionResult)


class Memory:
    """A session's past in memory."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    @property
    def steps(self) -> int:
        return len(self.episodes)

    @property
    def in_flight(self) -> bool:
        return bool(self.episodes) and self.episodes[-1].status == "in_flight"

    instruction = notebook = first_input = None

    def episodes_newest_first(self, last: int | None = None, first: int = 1) -> Iterator[Episode]:
        return reversed(self.episodes[first - 1 : last])

    def summaries_newest_first(self, before: int) -> Iterator[Any]:
        return iter(())

    def origins(self, outputs: Sequence[int], format: str, model: str) -> dict[int, Origin]:
        return {}

    def inputs_newest_first(self, before: int | None = None) -> Iterator[InputMessage]:
        return iter(())

    def carry_out(self, op: dict[str, Any]) -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        match op["op"]:
            case "register_action" if not self.in_flight:
                output = output_of(ActionProposal.model_validate(op["action"]))
                self.episodes.append(episode_of(self.steps + 1, [Entry(1, output, now)]))
            case "register_result" if self.in_flight:
                result = as_tool_result(RESULT.validate_python(op["result"]), "tool")
                entry = Entry(2, ToolResults(results=(result,)), now)
                action = Entry(1, self.episodes[-1].output, now)
                self.episodes[-1] = episode_of(self.steps, [action, entry])
            case "rewind":
                del self.episodes[self.steps - self.in_flight :]
                del self.episodes[max(0, self.steps - max(0, op["n"])) :]
            case "set_summary":
                self.episodes[op["index"]] = replace(self.episodes[op["index"]], summary=op["summary"])


@pytest.mark.parametrize("case", cases())
def test_every_recorded_history_reads_the_same(case: dict[str, Any]) -> None:
    past = Memory()
    for op in case["ops"]:
        past.carry_out(op)
    limit = case["config"]["max_tokens"]
    settings = SessionSettings(
        max_tokens=limit if limit and limit > 0 else None,
        full_message_count=case["config"]["full_message_count"],
    )
    count = COUNTERS[case["token_counter"]]
    unlimited = settings.model_copy(update={"max_tokens": None})
    messages = episodic_messages(past, unlimited, count).messages
    texts = {
        "n_episodes": past.steps,
        "cursor": past.steps - past.in_flight,
        "has_current_episode": past.in_flight,
        "fmt_list": as_list(past.episodes),
        "fmt_paragraph": as_paragraphs(past.episodes),
        "episode_formats": [long_form(episode) for episode in past.episodes],
        "summaries": [episode.summary for episode in past.episodes],
        "compile_progress": compile_progress(past, settings, count),
        "messages_unlimited": [_as_recorded(message.model_dump()) for message in messages],
    }
    compared = [name for name in case["compare"] if name in texts]
    assert compared
    for name in compared:
        assert texts[name] == case["expected"][name], name


def _as_recorded(message: dict[str, Any]) -> dict[str, Any]:
    recorded_fields = {"role", "content"} | (
        {"tool_call_id", "is_error"} if message["role"] == "tool" else set()
    )
    if message["tool_calls"] is not None:
        recorded_fields.add("tool_calls")
    return {name: message[name] for name in recorded_fields}


@pytest.mark.parametrize("record", records()["result_str_cases"])
def test_every_recorded_result_reads_the_same(record: dict[str, Any]) -> None:
    result = as_tool_result(RESULT.validate_python(record["result"]), "tool")
    assert result_text(result) == record["expected_str"]
