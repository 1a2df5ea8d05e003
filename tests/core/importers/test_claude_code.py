import io
import json
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import claude_code_index
from historyapp.core.importers.base import Head, LinesRead, SessionStart, Skipped, Source
from historyapp.core.importers.claude_code import CLAUDE_CODE
from tests.core.importers.claude_lines import S, answer, assistant, read, record, says, tool_call, user, uuid
from tests.core.importers.mutilation import mutilated_files, wrong_values
from tests.core.importers.operations import bodies, check, metadata, peak_memory, starts
from tests.examples import examples, thorough
from tests.shared import SHARED, needs

CORPUS = SHARED / "corpus" / "claude_code"
LARGE = 1_200_000
"""Bytes. Of larger files, only these have kinds of records that smaller ones lack."""
PECULIAR = ("skills__96_6dcb5f1627_1.jsonl", "starcar__35_5c38864811_0.jsonl")
FILES = [
    thorough(path) if path.stat().st_size > LARGE and path.name not in PECULIAR else path
    for path in sorted(CORPUS.glob("**/*.jsonl"))
]


@pytest.mark.parametrize(
    "line",
    [
        user(1, None, "hello"),
        record("progress", 1, None, data={"type": "hook_progress"}),
        {"type": "summary", "summary": "A title", "leafUuid": uuid(1)},
        {"type": "file-history-snapshot", "messageId": "1", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": S},
    ],
)
def test_a_file_is_recognised_by_any_of_its_records(line: dict[str, Any]) -> None:
    assert CLAUDE_CODE.recognises(Head("x.jsonl", ({"silly": 1}, line)))


@pytest.mark.parametrize(
    "line",
    [
        {"type": "session_meta", "payload": {}},
        {"type": "user", "content": "hello"},
        {"role": "user", "content": "hello"},
        {"type": 7},
        {},
    ],
)
def test_other_lines_are_not_recognised(line: dict[str, Any]) -> None:
    assert not CLAUDE_CODE.recognises(Head("x.jsonl", (line,)))


def test_an_export_with_loglines_is_recognised() -> None:
    assert CLAUDE_CODE.recognises(Head("x.json", (), {"loglines": []}))


def test_a_session_is_announced_with_the_fields_of_its_first_records() -> None:
    first = user(1, None, "Fix the\nlogin", cwd="/home/u", version="2.1.14", gitBranch="main")
    start = starts(read(first, assistant(2, 1, says("Done."))))[S]
    assert start == SessionStart(
        S,
        title="Fix the login",
        agent="claude-code",
        model="claude-opus-4-5",
        tags=("main",),
        metadata={"cwd": "/home/u", "version": "2.1.14"},
    )


def test_the_announcement_is_the_first_operation_of_its_session() -> None:
    operations = read(*(user(n, n - 1, f"prompt {n}") for n in range(1, 500)))
    assert isinstance(operations[0], SessionStart)
    assert len(bodies(operations)) == 499


def test_a_long_title_is_cut_at_80_characters() -> None:
    assert len(starts(read(user(1, None, "x" * 500)))[S].title) == 80


def test_a_command_gives_the_title_only_if_there_is_no_prompt() -> None:
    init = user(1, None, "<command-name>/init</command-name>\n<command-args>now</command-args>")
    assert starts(read(init, assistant(2, 1, says("ok"))))[S].title == "/init now"
    assert starts(read(init, user(2, 1, "Fix it"), assistant(3, 2, says("ok"))))[S].title == "Fix it"


def test_a_given_name_wins_over_the_model_s_name_and_the_summary() -> None:
    prompt = user(1, None, "prompt")
    summary = {"type": "summary", "summary": "summary", "leafUuid": uuid(1)}
    ai = {"type": "ai-title", "aiTitle": "ai", "sessionId": S}
    custom = {"type": "custom-title", "customTitle": "custom", "sessionId": S}
    assert starts(read(prompt, custom, ai, summary))[S].title == "custom"
    assert starts(read(prompt, ai, summary))[S].title == "ai"
    assert starts(read(prompt, summary))[S].title == "summary"


def test_a_summary_of_another_file_is_not_a_title() -> None:
    other = {"type": "summary", "summary": "another session", "leafUuid": uuid(99)}
    assert starts(read(other, user(1, None, "prompt")))[S].title == "prompt"


def test_the_title_at_the_end_of_a_large_file_is_found() -> None:
    long = [user(n, n - 1, "x" * 10_000) for n in range(1, 30)]
    title = {"type": "custom-title", "customTitle": "custom", "sessionId": S}
    assert starts(read(*long, title))[S].title == "custom"


def test_a_file_with_two_session_ids_is_one_session_with_the_newer_id() -> None:
    old = "11111111-4e5f-4061-8071-2a3b4c5d6e7f"
    lines = [user(1, None, "one", sessionId=old), assistant(2, 1, says("two"))]
    assert list(starts(read(*lines, name="copy.jsonl"))) == [S]
    assert list(starts(read(*lines, name=f"{old}.jsonl"))) == [old]


def test_a_session_without_an_id_is_named_after_its_file() -> None:
    line = user(1, None, "one")
    del line["sessionId"]
    assert list(starts(read(line, name="some chat.jsonl"))) == ["some chat"]


def test_loglines_in_one_document_read_as_lines_do() -> None:
    records = [user(1, None, "one"), assistant(2, 1, says("two")), "rubbish"]
    operations = read(json.dumps({"loglines": records}, indent=2), name="x.json")
    assert [body.kind for body in bodies(operations)] == ["model_input", "model_output"]
    assert Skipped(3, "not a JSON object") in operations


def test_a_prompt_that_mentions_loglines_is_not_read_as_a_document() -> None:
    assert len(bodies(read(user(1, None, 'what is {"loglines": []}?')))) == 1


@pytest.mark.parametrize("text", ["", "nothing\nof it", '{"silly": 1}', '{"loglines": ['])
def test_an_unreadable_file_is_refused(text: str) -> None:
    with pytest.raises(UnreadableTranscript):
        read(text)


def test_a_file_with_only_a_summary_has_no_session_and_is_not_a_failure() -> None:
    operations = read({"type": "summary", "summary": "A title", "leafUuid": uuid(1)})
    assert operations == [Skipped(1, "record of type summary", damaged=False), LinesRead(1, 0)]


def test_a_sub_agent_s_lines_among_the_others_are_a_session_of_their_own() -> None:
    operations = read(
        user(1, None, "go"),
        assistant(2, 1, tool_call("task", "Task", prompt="find it")),
        user(3, None, "find it", isSidechain=True),
        assistant(4, 3, tool_call("t"), isSidechain=True),
        answer(5, 4, "t", isSidechain=True),
        answer(6, 2, "task", "found"),
    )
    child = f"{S}/sidechain-{uuid(3)}"
    start = starts(operations)[child]
    assert (start.title, start.spawned_by, start.metadata["tool_call_id"]) == ("find it", S, "task")
    assert [body.kind for body in bodies(operations, child)] == [
        "model_input",
        "model_output",
        "tool_results",
    ]
    assert [body.kind for body in bodies(operations)] == ["model_input", "model_output", "tool_results"]
    assert list(starts(operations)) == [S, child]


def test_concurrent_sub_agents_are_separate() -> None:
    operations = read(
        user(1, None, "A", isSidechain=True),
        user(2, None, "B", isSidechain=True),
        assistant(3, 1, says("a"), isSidechain=True),
        assistant(4, 2, says("b"), isSidechain=True),
    )
    for number, prompt, text in ((1, "A", "a"), (2, "B", "b")):
        task, output = bodies(operations, f"{S}/sidechain-{uuid(number)}")
        assert (task.content, output.text) == (prompt, text)


def test_sub_agents_that_begin_below_the_main_conversation_are_separate() -> None:
    operations = read(
        user(1, None, "go"),
        user(2, 1, "A", isSidechain=True),
        user(3, 1, "B", isSidechain=True),
    )
    assert list(starts(operations)) == [S, f"{S}/sidechain-{uuid(2)}", f"{S}/sidechain-{uuid(3)}"]


def test_a_sub_agent_s_own_file_is_linked_to_the_session_that_started_it() -> None:
    operations = read(
        user(1, None, "find it", isSidechain=True, agentId="0c4c3cf8"),
        assistant(2, 1, says("found"), isSidechain=True, agentId="0c4c3cf8"),
        name="agent-0c4c3cf8.jsonl",
    )
    (start,) = starts(operations).values()
    assert (start.session, start.spawned_by) == (f"{S}/agent-0c4c3cf8", S)
    assert start.metadata["agent_id"] == "0c4c3cf8"


def echo(number: int, message: dict[str, Any], agent: str = "a1") -> dict[str, Any]:
    data = {"type": "agent_progress", "agentId": agent, "message": message}
    return record("progress", number, number - 1, data=data, parentToolUseID="task")


def test_a_sub_agent_known_only_by_echoes_is_a_session() -> None:
    operations = read(
        user(1, None, "go"),
        echo(2, user(11, None, [says("find it")])),
        echo(3, assistant(12, None, tool_call("t"))),
        echo(4, answer(13, None, "t")),
    )
    child = f"{S}/progress-a1"
    assert [body.kind for body in bodies(operations, child)] == [
        "model_input",
        "model_output",
        "tool_results",
    ]
    assert starts(operations)[child].metadata["tool_call_id"] == "task"


@pytest.mark.parametrize("place", ["agent-a1.jsonl", f"{S}/subagents/agent-a1.jsonl"])
def test_a_sub_agent_with_a_file_of_its_own_is_not_imported_from_echoes(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    lines = [user(1, None, "go"), echo(2, user(11, None, "find it"))]
    operations = read(*lines, folder=str(tmp_path))
    assert list(starts(operations)) == [S]
    assert Skipped(2, "copy of a record of the sub-agent a1", damaged=False) in operations


def test_an_echo_of_a_sub_agent_in_the_same_file_is_not_imported_again() -> None:
    operations = read(
        user(1, None, "find it", isSidechain=True, agentId="a1"), echo(2, user(1, None, "find it"))
    )
    assert [start for start in starts(operations) if "progress" in start] == []


def test_an_agent_s_id_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "agent-x.jsonl").touch()
    inner = tmp_path / "inner"
    inner.mkdir()
    line = echo(2, user(11, None, "find it"), agent="x/../../agent-x")
    operations = read(user(1, None, "go"), line, folder=str(inner))
    assert len(starts(operations)) == 2


def test_a_result_names_the_sub_agent_that_it_comes_from() -> None:
    operations = read(answer(1, None, "t", toolUseResult={"agentId": "a1"}))
    assert metadata(operations)[0]["agent_id"] == "a1"


@pytest.mark.parametrize(("facts", "is_kept"), [({}, True), ({"userModified": True}, False)])
def test_an_edit_has_the_diff_of_the_transcript(facts: dict[str, Any], *, is_kept: bool) -> None:
    hunk = {"oldStart": 3, "oldLines": 1, "newStart": 3, "newLines": 1, "lines": ["-a", "+b"]}
    operations = read(answer(1, None, "t", toolUseResult={"structuredPatch": [hunk], **facts}))
    diffs = {"t": {"added": 1, "removed": 1, "diff": "@@ -3,1 +3,1 @@\n-a\n+b"}}
    assert metadata(operations)[0].get("recorded_diffs") == (diffs if is_kept else None)


@pytest.mark.parametrize(("kind", "diffs"), [("update", {"t": {"added": 0, "removed": 0}}), ("create", None)])
def test_a_file_that_is_written_again_as_it_was_has_no_changed_lines(kind: str, diffs: Any) -> None:
    operations = read(answer(1, None, "t", toolUseResult={"type": kind, "structuredPatch": []}))
    assert metadata(operations)[0].get("recorded_diffs") == diffs


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The file's records, read without the importer. Includes glued records, and repeated ones once."""
    records, seen = [], set()
    for line in path.read_text("utf-8").splitlines():
        at = 0
        while at < len(line):
            try:
                value, at = json.JSONDecoder().raw_decode(line, at)
            except ValueError:
                break
            if isinstance(value, dict) and not (len(value.get("uuid", "")) == 36 and value["uuid"] in seen):
                records.append(value)
                seen.add(value.get("uuid"))
    return records


def test_memory_does_not_grow_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_code_index, "_NEWEST", 100)

    def turns(count: int) -> bytes:
        lines = []
        for n in range(0, 3 * count, 3):
            lines += [
                user(n + 1, n, "x" * 2000),
                assistant(n + 2, n + 1, tool_call(f"t{n}"), says("y" * 2000)),
            ]
            lines.append(answer(n + 3, n + 2, f"t{n}", "z" * 2000))
        return "\n".join(map(json.dumps, lines)).encode()

    grown_by = peak_memory(CLAUDE_CODE, turns(500)) - peak_memory(CLAUDE_CODE, turns(200))
    assert grown_by < 300 * 100  # the ids of a turn alone would take 700


def counted(path: Path) -> Counter[str]:
    """Calls and results by the shape of the JSON alone."""
    count: Counter[str] = Counter()
    for item in lines_of(path):
        count[{"tool_use": "calls", "tool_result": "results"}.get(item.get("type", ""), "")] += 1
        data = item.get("data") or {}
        output = data["message"] if data.get("type") == "agent_progress" else item
        message = output.get("message")
        blocks = message.get("content") if isinstance(message, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            kind = block.get("type") if isinstance(block, dict) else ""
            count[{"tool_use": "calls", "tool_result": "results"}.get(kind or "", "")] += 1
    return count


@needs("corpus/claude_code")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_of_the_corpus_is_read_in_full(path: Path) -> None:
    with path.open("rb") as stream:
        counts = check(CLAUDE_CODE.read(Source(path.name, stream)))
    expected = counted(path)
    assert (counts["calls"], counts["results"]) == (expected["calls"], expected["results"])
    orphans = {"entire__10_2b7007badc_0.jsonl": 1, "agentsessions__small.jsonl": 1}
    assert counts["results"] - counts["paired"] == orphans.get(path.name, 0)


@needs("corpus/claude_code")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_of_the_corpus_is_recognised(path: Path) -> None:
    assert CLAUDE_CODE.recognises(Head(path.name, tuple(lines_of(path)[:20])))


LINES = [
    user(1, None, "go"),
    assistant(2, 1, {"type": "thinking", "thinking": "Hm.", "signature": "s"}, tool_call("t"), id="m"),
    answer(3, 2, "t", [says("x")], toolUseResult={"agentId": "a"}),
    record("system", 4, 3, subtype="turn_duration", durationMs=3),
    record("attachment", 5, 4, attachment={"type": "queued_command", "prompt": "x"}),
    user(6, None, "find it", isSidechain=True),
    echo(7, assistant(8, None, says("x"))),
    user(9, 3, "again"),
    {"type": "summary", "summary": "A title", "leafUuid": uuid(1)},
]


@pytest.mark.parametrize("every", [5, thorough(1)])
def test_a_value_of_the_wrong_type_anywhere_breaks_nothing(every: int) -> None:
    for lines in islice(wrong_values(LINES), None, None, every):
        raw = "\n".join(map(json.dumps, lines)).encode()
        check(CLAUDE_CODE.read(Source("x.jsonl", io.BytesIO(raw))))
        CLAUDE_CODE.recognises(Head("x.jsonl", tuple(line for line in lines if isinstance(line, dict))))


@settings(max_examples=examples(400))
@given(mutilated_files(LINES))
def test_no_damage_breaks_the_importer(raw: bytes) -> None:
    with suppress(UnreadableTranscript):
        check(CLAUDE_CODE.read(Source("x.jsonl", io.BytesIO(raw))))
