"""A transcript that is imported again in another form is the same session: only its content counts."""

import io
import json
from typing import Any

import pytest

from historyapp.core.importers import claude_code, claude_code_session, gemini_cli, openhands_v1
from historyapp.core.importers.base import Append, Source
from historyapp.core.importers.records import present_fields
from historyapp.models import Entry, ImportSource, Project, Session
from historyapp.models.history import History
from historyapp.services.imports import writer
from historyapp.services.imports.digests import earlier_digest
from historyapp.services.imports.files import import_file
from historyapp.services.imports.reports import FileReport
from historyapp.services.projections import parents_first, rebuild
from tests.core.importers import codex_lines
from tests.core.importers.claude_lines import S, answer, assistant, record, says, tool_call, user
from tests.core.importers.gemini_records import GEMINI_FACTS
from tests.core.importers.samples import OPENHANDS_V1, event
from tests.core.importers.test_gemini_cli import asks
from tests.core.importers.test_gemini_cli import says as gemini_says
from tests.services.drafts import ask
from tests.services.scripts import Script, live_texts, read, texts

MAIN = (
    user(1, None, "go"),
    assistant(2, 1, tool_call("t")),
    answer(3, 2, "t"),
    assistant(4, 3, says("done")),
)
AGENT = "agent-a1.jsonl"
HUNK = {"oldStart": 3, "oldLines": 1, "newStart": 3, "newLines": 1, "lines": ["-a", "+b"]}


def imported(project: Project, *lines: Any, name: str = f"{S}.jsonl") -> FileReport:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    report = import_file(project, Source(name, io.BytesIO(text.encode())))
    assert report.error == ""
    return report


def of_agent(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**line, "isSidechain": True, "agentId": "a1"} for line in lines]


SUB = of_agent(user(11, None, "find it"), assistant(12, 11, tool_call("u")), answer(13, 12, "u", "found"))


def echoes(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    """The main file's records of a sub-agent, without the content of results."""
    records_of_task = []
    for number, line in enumerate(lines, start=30):
        data = {"type": "agent_progress", "agentId": "a1", "message": line}
        records_of_task.append(record("progress", number, None, data=data, parentToolUseID="task"))
    return records_of_task


PARTIAL = echoes(user(11, None, "find it"), assistant(12, 11, tool_call("u")), answer(13, 12, "u", "f…"))


def kinds(title: str) -> list[str]:
    return [entry.kind for entry in History(Session.objects.get(title=title)).entries()]


def sound() -> None:
    for session in parents_first():
        assert rebuild(session, check_only=True).differences == []


@pytest.mark.parametrize("noise", ["", '{"broken', '{"type": "mode", "mode": "normal"}', "[1]"])
def test_a_line_before_a_known_file_makes_no_second_session(project: Project, noise: str) -> None:
    imported(project, *MAIN)
    again = imported(project, noise, *MAIN)
    assert (again.total("added"), Session.objects.count()) == (0, 1)
    grown = imported(project, noise, *MAIN, user(5, 4, "and now?"))
    assert (grown.total("added"), Session.objects.count()) == (1, 1)


def test_a_line_within_a_known_file_makes_no_second_session(project: Project) -> None:
    lines = (codex_lines.meta(), codex_lines.asks("go"), codex_lines.tool_call("c"), codex_lines.output("c"))
    name = f"rollout-2026-02-23T12-41-04-{codex_lines.S}.jsonl"
    imported(project, *lines, name=name)
    again = imported(project, *lines[:2], "", '{"broken', *lines[2:], name=name)
    assert (again.total("added"), Session.objects.count()) == (0, 1)


def test_other_content_in_the_same_places_is_another_session(project: Project) -> None:
    imported(project, *MAIN)
    imported(project, user(1, None, "stop"), *MAIN[1:], user(5, 4, "and now?"))
    assert Session.objects.count() == 2


@pytest.mark.parametrize("alone_first", [True, False])
def test_a_sub_agent_inline_and_in_a_file_of_its_own_is_one_session(
    project: Project, alone_first: bool
) -> None:
    files: list[tuple[list[Any], str]] = [([*MAIN[:2], *SUB, *MAIN[2:]], f"{S}.jsonl"), (SUB, AGENT)]
    for lines, name in files[::-1] if alone_first else files:
        imported(project, *lines, name=name)
    assert Session.objects.count() == 2
    child = Session.objects.get(title="find it")
    assert child.spawned_by == Session.objects.get(title="go")
    assert kinds("find it") == ["model_input", "model_output", "tool_results"]


def test_a_sub_agent_s_own_file_takes_the_place_of_its_echoes(project: Project) -> None:
    imported(project, *MAIN, *PARTIAL)
    (echoed,) = Session.objects.filter(title="find it")
    imported(project, *SUB, name=AGENT)
    assert Session.objects.count() == 2
    assert kinds("find it") == ["model_input", "model_output", "tool_results"]
    *_, result = History(Session.objects.get(title="find it")).entries()
    assert result.body["results"][0]["outputs"] == "found"
    assert Session.objects.get(title="find it").pk == echoed.pk
    assert (
        Entry.objects.get(kind="rewind").body["reason"]
        == "replaced by the complete transcript of this session"
    )
    for lines, name in ((SUB, AGENT), ([*MAIN, *PARTIAL], f"{S}.jsonl")):
        assert imported(project, *lines, name=name).total("added") == 0
    grown = [*SUB, *of_agent(assistant(14, 13, says("here")))]
    assert imported(project, *grown, name=AGENT).total("added") == 1
    sound()


def test_echoes_of_a_completely_imported_sub_agent_add_nothing(project: Project) -> None:
    imported(project, *SUB, name=AGENT)
    imported(project, *MAIN, *PARTIAL)
    assert Session.objects.count() == 2
    assert Session.objects.get(title="find it").spawned_by == Session.objects.get(title="go")
    assert not Entry.objects.filter(kind="rewind").exists()


def entry(text: str, line: int) -> Append:
    draft = ask(text)
    return Append("s", draft._replace(metadata={"source": {"format": "script", "line": line}}))


def test_a_session_imported_by_an_earlier_version_is_recognised_and_grows(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(writer, "digest", earlier_digest)
        provisional = entry("c", 3)._replace(provisional=True)
        read(project, script, entry("a", 1), entry("b", 2), provisional)
    assert len(ImportSource.objects.get().settled_digest) == 64
    same = [entry("a", 1), entry("b", 2), entry("c", 3)]
    assert read(project, script, *same).total("added") == 0
    assert read(project, script, *same, entry("d", 4)).total("added") == 1
    moved = [entry(text, line) for line, text in enumerate("abcde", start=7)]
    assert read(project, script, *moved).total("added") == 1
    assert live_texts() == ["a", "b", "c", "d", "e"]
    assert Session.objects.count() == 1


def test_a_session_that_an_earlier_version_imported_differently_is_another_session(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(writer, "digest", earlier_digest)
        read(project, script, *texts("a", "b", "c"))
    read(project, script, *texts("x", "b", "c"))
    assert Session.objects.count() == 2


def test_a_condensation_that_an_earlier_version_did_not_read_makes_no_second_session(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fields_then(**facts: Any) -> dict[str, Any]:
        return {name: value for name, value in present_fields(**facts).items() if name != "condensed"}

    condensed = event("Condensation", "environment", forgotten_event_ids=["a"], summary="Done so far.")
    file = [*OPENHANDS_V1, condensed, event("MessageEvent", "user", llm_message={"content": "go on"})]
    with monkeypatch.context() as earlier:
        earlier.setattr(openhands_v1, "present_fields", fields_then)
        imported(project, *file, name="run.jsonl")
    count = Entry.objects.count()
    imported(project, *file, event("MessageEvent", "user", llm_message={"content": "more"}), name="run.jsonl")
    assert Session.objects.count() == 1
    assert Entry.objects.count() == count + 1


def test_facts_that_an_earlier_version_did_not_read_make_no_second_session(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = record("progress", 4, 3, data={"hookName": "SessionStart:resume"})
    file = [
        user(1, None, "start"),
        assistant(2, 1, tool_call("call_1")),
        answer(3, 2, "call_1", "text", version="2.1.5", toolUseResult={"structuredPatch": [HUNK]}),
        hook,
        user(5, 4, "go on"),
        assistant(6, 5, says("done")),
    ]
    with monkeypatch.context() as earlier:
        earlier.setattr(claude_code, "_RESUMED", "")
        earlier.setattr(claude_code_session, "clearable_tokens", lambda results, version: None)
        earlier.setattr(claude_code_session, "diffs_of", lambda results, record: {})
        imported(project, *file)
    count = Entry.objects.count()
    imported(project, *file, user(7, 6, "more"))
    assert Session.objects.count() == 1
    assert Entry.objects.count() == count + 1


def test_a_diff_beside_a_result_without_other_metadata_makes_no_second_session(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {"fileDiff": "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n", "isNewFile": False}
    call = {"id": "w", "name": "write_file", "args": {"file_path": "a"}, "status": "success"}
    file = [GEMINI_FACTS, asks("1", "go"), gemini_says("2", toolCalls=[{**call, "resultDisplay": shown}])]
    with monkeypatch.context() as earlier:
        earlier.setattr(gemini_cli, "diffs_of", lambda results: {})
        imported(project, *file, name="session.jsonl")
    count = Entry.objects.count()
    imported(project, *file, asks("3", "more"), name="session.jsonl")
    assert Session.objects.count() == 1
    assert Entry.objects.count() == count + 1


def test_a_limited_number_of_operations_is_provisional(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch stored the digests of all of them again: 8 MB for 40 entries after 120,000."""
    monkeypatch.setattr(writer, "MAX_PROVISIONAL", 3)
    words = [str(number) for number in range(10)]
    for count in (6, 10, 10):
        read(project, script, *texts(*words[:count], provisional=True))
        assert len(ImportSource.objects.get().provisional_digests) <= 3
    assert live_texts() == words
    read(project, script, *texts(*words[:9]), *texts("changed", provisional=True))
    assert live_texts() == [*words[:9], "changed"]
    read(project, script, *texts(*words[:5]), *texts(*words[5:9], "changed", "more", provisional=True))
    assert live_texts() == [*words[:9], "changed", "more"]
    assert Session.objects.count() == 1
