"""No file makes an importer take more than linear time, whatever its content and links are."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from io import BytesIO
from typing import Any

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS, detect
from historyapp.core.importers.base import Append, Source
from historyapp.core.prepared import prepare
from historyapp.core.tokens import count_tokens
from tests.core.importers import claude_lines as claude
from tests.core.importers import codex_lines as codex
from tests.core.importers.reading import lines
from tests.core.importers.samples import FILES
from tests.examples import thorough

FEW, MANY = 500, 2_000
"""Records. Four times as many take a quadratic importer 16 times as long."""
SIGNIFICANT = 0.05
"""Seconds of processor time; shorter times say nothing."""
MAX_GROWTH = 8
PUMPS = ("a", "\n", "<parameter=a>", "<think>", "```bash\n", "\\'", "{}", '{"a":', "a=1, ", "\x1b[", "\ud800")
SLOW = 0.5
"""Seconds that no text may take; a quadratic loop takes at least twice as long."""
TEXT = {2: 60_000, len(PUMPS): 60_000}
"""The characters of a text, by the number of texts that are tried at each place."""

Records = Iterable[dict[str, Any]]


def seconds(name: str, data: bytes) -> float:
    """Processor time to detect and read a file, as an import does."""
    count_tokens("")
    started = time.thread_time()
    with suppress(UnreadableTranscript):
        detect(Source("run.jsonl", BytesIO(data)))
    with suppress(UnreadableTranscript):
        for operation in IMPORTERS[name].read(Source("run.jsonl", BytesIO(data))):
            if isinstance(operation, Append):
                prepare(operation.draft)
    return time.thread_time() - started


def chat(*messages: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "go"}, *messages]}).encode()


def openai_calls(ids: list[str]) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def blocks(kind: str, ids: Iterable[Any]) -> list[dict[str, Any]]:
    if kind.endswith("tool_result"):
        return [{"type": kind, "tool_use_id": id, "content": "r"} for id in ids]
    return [{"type": kind, "id": id, "name": "f", "input": {}} for id in ids]


def claude_records(parent: Callable[[int], int | None]) -> Callable[[int], bytes]:
    def turn(i: int) -> dict[str, Any]:
        is_asked = i % 2 == 0
        return claude.user(i + 1, parent(i), "go") if is_asked else claude.assistant(i + 1, parent(i), block)

    block = claude.says("ok")
    return lambda n: lines(*map(turn, range(n))).encode()


def claude_answers(n: int) -> bytes:
    """One message with all calls, then their results from the last to the first."""
    calls = [claude.tool_call(f"c{i}") for i in range(n)]
    output = claude.assistant(2, 1, *calls)
    answers = [claude.answer(i + 3, 2, f"c{n - 1 - i}") for i in range(n)]
    return lines(claude.user(1, None, "go"), output, *answers).encode()


def server_results(n: int) -> bytes:
    """Results within the model's message, then one call without a result, then text after text."""
    ids = list(range(n // 3))
    content = [*blocks("tool_use", ids), *blocks("web_search_tool_result", ids), *blocks("tool_use", [n])]
    return chat({"role": "assistant", "content": [*content, *[{"type": "text", "text": "x"}] * (n // 3)]})


def playhead(records: Callable[[int], Records]) -> Callable[[int], bytes]:
    header = {"playhead": 1, "kind": "session", "id": "s", "title": "t"}
    return lambda n: lines(header, *records(n)).encode()


def rewinds(n: int) -> Iterator[dict[str, Any]]:
    for i in range(n):
        yield {"session": "s", "position": 2 * i + 1, "kind": "model_input", "content": "x"}
        to = max(0, 2 * i - 1)
        yield {"session": "s", "position": 2 * i + 2, "kind": "rewind", "to_position": to, "spans": []}


def nested_forks(point: Callable[[int], int]) -> Callable[[int], Records]:
    """Each session is a fork of the one before it, with one entry. The last one rewinds to each position."""

    def records(n: int) -> Iterator[dict[str, Any]]:
        parent = "s"
        for i in range(n):
            fork = {"playhead": 1, "kind": "session", "id": f"f{i}", "forked_from": [parent, point(i)]}
            parent = f"f{i}"
            yield fork
            yield {"session": parent, "position": i + 1, "kind": "model_input", "content": "x"}
        for i in range(n):
            yield {"session": parent, "position": n + i + 1, "kind": "rewind", "to_position": i, "spans": []}

    return records


def codex_records(record: Callable[[int], dict[str, Any]]) -> Callable[[int], bytes]:
    return lambda n: lines(codex.meta(), *(record(i) for i in range(n))).encode()


def glued(text: str) -> Callable[[int], bytes]:
    return lambda n: (text * n * 8).encode()


LINKED: dict[tuple[str, str], Callable[[int], bytes]] = {
    ("claude_code", "a chain of parents"): claude_records(lambda i: i or None),
    ("claude_code", "every parent comes later"): claude_records(lambda i: i + 2),
    ("claude_code", "all have one parent"): claude_records(lambda i: 1 if i else None),
    ("claude_code", "a tree of branches"): claude_records(lambda i: i // 2 + 1 if i else None),
    ("claude_code", "a circle"): claude_records(lambda i: i or 500),
    ("claude_code", "answers in reverse"): claude_answers,
    ("codex_rollout", "calls without results"): codex_records(lambda i: codex.tool_call(f"c{i}")),
    ("codex_rollout", "calls of one id"): codex_records(lambda i: codex.tool_call("c")),
    ("codex_rollout", "results without calls"): codex_records(lambda i: codex.output(f"c{i}")),
    ("codex_rollout", "rollbacks"): codex_records(
        lambda i: codex.asks("x") if i % 2 else codex.event("thread_rolled_back", num_turns=i)
    ),
    ("codex_rollout", "token counts"): codex_records(lambda i: codex.tokens(i)),
    ("openai_chat", "answers in reverse"): lambda n: chat(
        openai_calls([f"c{i}" for i in range(n)]),
        *({"role": "tool", "tool_call_id": f"c{n - 1 - i}", "content": "r"} for i in range(n)),
    ),
    ("openai_chat", "calls of one id"): lambda n: chat(
        openai_calls(["c"] * n), *[{"role": "tool", "tool_call_id": "c", "content": "r"}] * n
    ),
    ("openai_chat", "rows"): lambda n: lines(
        *({"messages": [{"role": "user", "content": str(i)}]} for i in range(n))
    ).encode(),
    ("anthropic_messages", "answers in reverse"): lambda n: chat(
        {"role": "assistant", "content": blocks("tool_use", range(n))},
        {"role": "user", "content": blocks("tool_result", range(n)[::-1])},
    ),
    ("anthropic_messages", "results within the message"): server_results,
    ("playhead_jsonl", "rewinds"): playhead(rewinds),
    ("playhead_jsonl", "forks of forks"): playhead(nested_forks(lambda i: i)),
    ("playhead_jsonl", "forks of forks at the start"): playhead(nested_forks(lambda _: 0)),
    ("playhead_jsonl", "empty values on one line"): glued("{}"),
    ("playhead_jsonl", "lists on one line"): glued("[]"),
    ("claude_code", "numbers on one line"): glued("1 "),
    ("codex_rollout", "strings on one line"): glued('""'),
    ("openai_chat", "open brackets"): glued("["),
    ("anthropic_messages", "open objects"): glued('{"a":'),
    ("state_json", "digits"): glued("1"),
    ("openhands", "a fraction"): lambda n: b'{"a":0.' + b"1" * n * 8 + b"}",
    ("swe_agent", "lines of rubbish"): glued("x\n"),
}


@pytest.mark.parametrize(("name", "what"), LINKED)
def test_four_times_the_records_take_about_four_times_as_long(name: str, what: str) -> None:
    few, many = (LINKED[name, what](n) for n in (FEW, MANY))
    if (duration := seconds(name, many)) <= SIGNIFICANT:
        return
    before = seconds(name, few)
    if duration >= MAX_GROWTH * before:  # again, as something else may have run meanwhile
        duration, before = min(duration, seconds(name, many)), min(before, seconds(name, few))
    assert duration < max(SIGNIFICANT, MAX_GROWTH * before)


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each text in a JSON value."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from texts(item, (*path, key))


def with_text(value: Any, path: tuple[Any, ...], text: str) -> Any:
    copy = place = deepcopy(value)
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = text
    return copy


@pytest.mark.parametrize("pumps", [PUMPS[:2], thorough(PUMPS)])
@pytest.mark.parametrize(("name", "file"), FILES)
def test_no_text_in_any_place_of_a_file_takes_long(name: str, file: Any, pumps: tuple[str, ...]) -> None:
    sample = [json.loads(line) for line in file.splitlines()] if isinstance(file, str) else file
    slow = []
    for number, path in enumerate(texts(sample)):
        for pump in pumps if len(pumps) > 2 else [pumps[number % 2]]:
            hostile = with_text(sample, path, pump * (TEXT[len(pumps)] // len(pump)))
            data = lines(*hostile) if isinstance(file, str) else json.dumps(hostile)
            if seconds(name, data.encode()) > SLOW and seconds(name, data.encode()) > SLOW:
                slow.append((path, pump))
    assert slow == []
