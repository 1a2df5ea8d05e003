"""Which signed and encrypted reasoning a served context sends again, and how the manifest reports it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django.plugin import DjangoDbBlocker

from historyapp.core.entries import (
    DebugLog,
    EntryDraft,
    MemoryNotebook,
    ModelOutput,
    SystemInstruction,
    ToolCall,
)
from historyapp.models import Project, Session, Snapshot
from historyapp.models.snapshot_histories import TrackedHistory
from historyapp.services.append import append
from historyapp.services.contexts import RequestedContext, build, resolve_options
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.snapshots import (
    ServedContext,
    rebuild_request,
    record_snapshot,
    serve_context,
)
from tests.services.drafts import ask, draft, ok

CLAUDE = RequestedContext(
    policy="live", format="anthropic_messages", model="claude-opus-4-5", max_tokens=None
)
GPT = RequestedContext(policy="live", format="openai_responses", model="gpt-5", max_tokens=None)
CHANGED = "what precedes it has changed since the model wrote it"


@pytest.fixture(scope="module")
def recorded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[UUID]:
    """A run of three steps, whose requests were served. Each test undoes its changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        session = create_session(Project.objects.create(name="Alice's"), names={"title": "a run"})
        record(session, draft(SystemInstruction(text="You repair.")), ask("go"))
        for number in (1, 2, 3):
            act(session, CLAUDE, number)
        yield session.pk
        transaction.set_rollback(True)


@pytest.fixture
def claude(recorded: UUID, db: None) -> Session:
    return Session.objects.get(pk=recorded)


def record(session: Session, *drafts: EntryDraft) -> None:
    append(session.project, session.pk, drafts)
    session.refresh_from_db()


def thinking(number: int) -> dict[str, str]:
    return {"signature": f"Sig{number}", "type": "thinking", "thinking": f"Thought {number}. " * 40}


def encrypted(number: int) -> dict[str, Any]:
    return {"id": f"rs_{number}", "type": "reasoning", "encrypted_content": f"Enc{number}", "summary": []}


def output(options: RequestedContext, number: int, **metadata: Any) -> EntryDraft:
    block = thinking(number) if options.format == "anthropic_messages" else encrypted(number)
    calls = (ToolCall(id=f"c{number}", name="read", arguments={}),)
    return EntryDraft(ModelOutput(tool_calls=calls, reasoning=[block]), None, metadata)


def act(session: Session, options: RequestedContext, number: int) -> Snapshot:
    """A step whose request is served, and its result."""
    snapshot = record_snapshot(serve_context(session, options))
    record(
        session, output(options, number, snapshot=str(snapshot.pk)), ok(f"c{number}", f"file {number} " * 40)
    )
    return snapshot


def sent(session: Session, options: RequestedContext = CLAUDE) -> list[dict[str, Any]]:
    """The reasoning blocks of the next request."""
    request = serve_context(session, options).built.request
    items = [*request.get("input", ())]
    items += [block for message in request.get("messages", ()) for block in message["content"]]
    return [item for item in items if item["type"] in ("thinking", "redacted_thinking", "reasoning")]


def left_out(session: Session, options: RequestedContext = CLAUDE) -> list[tuple[int, int, int, str]]:
    counts = serve_context(session, options).built.manifest.reasoning_left_out
    return [(each.first_step, each.last_step, each.blocks, each.reason) for each in counts]


def test_a_served_run_keeps_all_reasoning_byte_for_byte(claude: Session) -> None:
    assert [list(block.items()) for block in sent(claude)] == [list(thinking(n).items()) for n in (1, 2, 3)]
    assert left_out(claude) == []
    for policy in ("budgeted", "sliding_window", "episodic", "masked"):
        assert sent(claude, replace(CLAUDE, policy=policy)) == sent(claude), policy


def test_encrypted_items_are_sent_whole(session: Session) -> None:
    record(session, ask("go"))
    for number in (1, 2):
        act(session, GPT, number)
    assert [list(item.items()) for item in sent(session, GPT)] == [list(encrypted(n).items()) for n in (1, 2)]


def test_the_newest_served_snapshot_is_used_if_the_output_names_none(session: Session) -> None:
    record(session, ask("go"))
    record_snapshot(serve_context(session, CLAUDE))
    record(session, output(CLAUDE, 1), ok("c1"))
    assert sent(session) == [thinking(1)]
    record_snapshot(
        serve_context(session, replace(CLAUDE, tools=[{"name": "ls", "parameters": {"type": "object"}}]))
    )
    record(session, output(CLAUDE, 2), ok("c2"))
    assert sent(session) == []
    assert left_out(session) == [(1, 2, 2, CHANGED)]


def test_an_agent_that_builds_its_own_requests_is_assumed_to_send_everything(session: Session) -> None:
    record(session, ask("go"), output(CLAUDE, 1), ok("c1"), output(CLAUDE, 2), ok("c2"))
    assert sent(session) == [thinking(1), thinking(2)]
    record(session, draft(DebugLog(category="compaction", message="Compacted")), ask("on"))
    record(session, output(CLAUDE, 3), ok("c3"))
    assert sent(session) == [thinking(1), thinking(2)]
    assert left_out(session) == [(3, 3, 1, "the agent had compacted its context")]


def test_a_fork_and_a_rewind_keep_the_reasoning_of_shared_steps(claude: Session) -> None:
    child = fork(claude.project, claude.pk, at_step=2)
    assert sent(child) == [thinking(1), thinking(2)]
    act(child, CLAUDE, 7)
    assert sent(child) == [thinking(1), thinking(2), thinking(7)]
    rewind(claude.project, claude.pk, Target(to_step=1))
    claude.refresh_from_db()
    assert sent(claude) == [thinking(1)]
    act(claude, CLAUDE, 8)
    assert sent(claude) == [thinking(1), thinking(8)]


@pytest.mark.parametrize("body", [SystemInstruction(text="You read."), MemoryNotebook(content="a note")])
@pytest.mark.parametrize("is_served", [True, False])
def test_another_instruction_or_notebook_ends_reasoning(session: Session, body: Any, is_served: bool) -> None:
    record(session, draft(SystemInstruction(text="You repair.")), ask("go"))
    if is_served:
        act(session, CLAUDE, 1)
    else:
        record(session, output(CLAUDE, 1), ok("c1"))
    record(session, draft(body), ask("on"))
    assert sent(session) == []
    own = "the instruction or the notebook has changed since the model wrote it"
    assert left_out(session) == [(1, 1, 1, CHANGED if is_served else own)]


def test_an_instruction_that_is_recorded_again_changes_nothing(session: Session) -> None:
    record(session, draft(SystemInstruction(text="You repair.")), ask("go"), output(CLAUDE, 1), ok("c1"))
    record(session, draft(SystemInstruction(text="You repair.")))
    assert sent(session) == [thinking(1)]


def test_after_a_mask_whole_turns_are_left_out(claude: Session) -> None:
    masked = replace(CLAUDE, policy="masked")
    claude.settings = {**claude.settings, "window_size": 1}
    claude.save()
    assert sent(claude, masked) == []
    assert left_out(claude, masked) == [(1, 3, 3, CHANGED)]
    record(claude, ask("and now"))
    act(claude, CLAUDE, 4)
    assert [block["signature"] for block in sent(claude)] == ["Sig1", "Sig2", "Sig3", "Sig4"]


def test_a_small_budget_leaves_out_the_newest_turn_first(claude: Session) -> None:
    record(claude, draft(ModelOutput(text="Done.")), ask("and now"))
    act(claude, CLAUDE, 5)
    whole = serve_context(claude, CLAUDE).built
    smaller = replace(CLAUDE, max_tokens=whole.tokens - 1)
    built = serve_context(claude, smaller).built
    assert [block["signature"] for block in sent(claude, smaller)] == ["Sig1", "Sig2", "Sig3"]
    assert [each.reason for each in built.manifest.reasoning_left_out] == ["it does not fit the budget"]
    assert built.tokens == built.manifest.tokens < whole.tokens


def test_reasoning_after_a_live_screen_is_left_out(session: Session) -> None:
    record(session, ask("go"))
    act(session, replace(CLAUDE, live_screen="a window"), 1)
    assert left_out(session) == [(1, 1, 1, "its request had a live screen")]


def test_another_model_or_format_gets_no_reasoning(claude: Session) -> None:
    assert sent(claude, replace(CLAUDE, model="claude-opus-4-5-20251101")) != []
    assert left_out(claude, replace(CLAUDE, model="claude-haiku-4-5")) == [
        (1, 3, 3, "another model wrote it")
    ]
    assert left_out(claude, GPT) == [(1, 3, 3, "another provider wrote it")]
    chat = replace(GPT, format="openai_chat")
    assert left_out(claude, chat) == [(1, 3, 3, "this format has no place for it")]
    record(claude, output(GPT, 4, snapshot=str(Snapshot.objects.earliest("pk").pk)), ok("c4"))
    assert left_out(claude, replace(GPT, model=""))[-1] == (
        4,
        4,
        1,
        "it was written in a request of another format",
    )


def test_snapshots_are_rebuilt_with_and_without_reasoning(claude: Session) -> None:
    record_snapshot(serve_context(claude, replace(CLAUDE, policy="masked")))
    for snapshot in Snapshot.objects.all():
        assert rebuild_request(claude, snapshot).matches


@pytest.mark.parametrize("policy", ["live", "masked", "budgeted", "sliding_window", "episodic"])
@pytest.mark.parametrize("format", ["anthropic_messages", "openai_responses", "openai_chat"])
def test_older_snapshots_are_rebuilt_with_the_older_rule(claude: Session, policy: str, format: str) -> None:
    record(claude, draft(MemoryNotebook(content="a note")), output(GPT, 4), ok("c4"))
    options = replace(CLAUDE, policy=policy, format=format)
    spec = replace(resolve_options(claude, options), keeps_all_reasoning=True)
    past = TrackedHistory(claude)
    served = ServedContext(build(past, spec), claude, claude.head, list(past.summary_ids), None, {})
    snapshot = record_snapshot(served)
    Snapshot.objects.filter(pk=snapshot.pk).update(prefix_sha256="")
    snapshot.refresh_from_db()
    rebuilt = rebuild_request(claude, snapshot)
    assert rebuilt.matches
    marks = {"anthropic_messages": "Sig3" if policy != "budgeted" else "", "openai_responses": "Enc4"}
    assert marks.get(format, "") in str(rebuilt.request)


@pytest.mark.parametrize("length", [4, 20])
def test_two_queries_find_the_requests_of_all_steps(claude: Session, length: int) -> None:
    for number in range(4, length):
        act(claude, CLAUDE, number)
    counts = []
    for options in (
        CLAUDE,
        replace(CLAUDE, format="openai_responses"),
    ):  # a format that sends no reasoning of Claude
        with CaptureQueriesContext(connection) as captured:
            serve_context(claude, options)
        counts.append(len(captured))
    assert counts[0] == counts[1] + 2
