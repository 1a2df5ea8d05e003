"""Both clients against the real application: requests arrive, and responses are parsed."""

import asyncio
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pytest_django.live_server_helper import LiveServer

from historyapp.client import (
    ActionError,
    ActionInterrupted,
    ActionProposal,
    ActionSuccess,
    AsyncPlayhead,
    Conflict,
    DebugLog,
    EntryDraft,
    ModelInput,
    NotFound,
    Playhead,
    SessionSettings,
    SystemInstruction,
    Thoughts,
    UseTool,
    from_exception,
    http_messages,
)

ODD = "lone \ud800, NUL \0, <script>, ünï"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def act(playhead: Playhead, session_id: UUID, name: str, result: ActionSuccess | ActionError) -> None:
    playhead.register_action(session_id, ActionProposal(thoughts="so", use_tool=UseTool(name=name)))
    playhead.register_result(session_id, result)


@pytest.fixture
def session_id(playhead: Playhead) -> UUID:
    return playhead.create_session(title="a run").id


@pytest.fixture
def three(playhead: Playhead, session_id: UUID) -> UUID:
    """A session of three steps, at positions 1 to 6."""
    for number in (1, 2, 3):
        act(playhead, session_id, f"tool_{number}", ActionSuccess(outputs=number))
    return session_id


def test_a_fork_is_compared_with_its_parent(playhead: Playhead, three: UUID) -> None:
    fork = playhead.fork(three, at_step=2)
    act(playhead, fork.id, "other", ActionSuccess(outputs=3))
    comparison = playhead.compare_sessions(three, f"{fork.id}")
    assert (comparison.common.steps, comparison.first_divergence and comparison.first_divergence.b) == (2, 3)
    assert [pair.change for pair in playhead.compared_steps(three, fork.id, limit=1)] == ["only_a", "only_b"]


def test_a_sub_agent_names_the_step_that_starts_it(playhead: Playhead, three: UUID) -> None:
    child = playhead.create_session(title="helper", spawned_by=(three, 2))
    assert (child.spawned_by, child.spawned_position) == (three, 3)
    unknown = playhead.create_session(spawned_by=(three, None))
    assert (unknown.spawned_by, unknown.spawned_position) == (three, None)


def test_a_session_is_created_with_the_fields_in_the_call(playhead: Playhead) -> None:
    id = uuid4()
    made = playhead.create_session(
        id=id,
        title="Fix it",
        agent="fixer",
        model="m",
        tags=["a", "b"],
        settings=SessionSettings(full_message_count=2, max_tokens=None),
        metadata={"run": 1},
    )
    assert (made.id, made.title, made.agent, made.model, made.tags) == (
        id,
        "Fix it",
        "fixer",
        "m",
        ["a", "b"],
    )
    assert (made.settings.full_message_count, made.settings.max_tokens) == (2, None)
    assert (made.metadata, made.head, made.status) == ({"run": 1}, 0, "live")
    assert playhead.session(id) == made


def test_a_change_affects_only_the_fields_in_the_call(playhead: Playhead, session_id: UUID) -> None:
    changed = playhead.change_session(session_id, status="finished", settings={"window_size": 3})
    assert (changed.title, changed.status, changed.settings.window_size) == ("a run", "finished", 3)
    assert playhead.change_session(session_id, tags=[]).settings.window_size == 3


def test_a_session_is_changed(playhead: Playhead, session_id: UUID) -> None:
    changed = playhead.annotate_session(
        session_id, add_tags=["a", "b"], note="good", score=0.5, score_name="speed"
    )
    assert (changed.tags, changed.note, changed.score, changed.score_name) == (
        ["a", "b"],
        "good",
        0.5,
        "speed",
    )
    with pytest.raises(Conflict) as caught:
        playhead.annotate_session(session_id, note="bad", expected={"note": ""})
    assert caught.value.fields["current"] == {"note": "good"}
    without = playhead.annotate_session(session_id, remove_tags=["a"], note="", score="remove")
    assert (without.tags, without.note, without.score, without.score_name) == (["b"], "", None, "")
    assert playhead.session(session_id).tags == ["b"]


def test_many_sessions_are_changed_and_exported(playhead: Playhead, session_id: UUID) -> None:
    ids = [session_id, playhead.create_session(title="another").id]
    started = playhead.start_bulk_action("add_tag", ids, tag="x")
    assert (started.state, started.total) == ("running", 2)
    assert playhead.bulk_action(started.id).waiting == 2
    assert playhead.cancel_bulk_action(started.id).state == "cancelled"
    assert playhead.estimate_bulk_compression(ids, strategy="simple_extract").nothing_to_do == 2
    with zipfile.ZipFile(BytesIO(b"".join(playhead.export_many(ids, format="markdown")))) as archive:
        assert "index.json" in archive.namelist()
        assert len(archive.namelist()) == 3


def test_sessions_are_evaluated(playhead: Playhead, session_id: UUID) -> None:
    started = playhead.evaluate([session_id], budgets=[2000], policies=["live"])
    assert (started.state, started.budgets, started.waiting) == ("running", [2000], 1)
    assert playhead.cancel_evaluation(started.id).state == "cancelled"
    assert playhead.evaluation(started.id).results is None
    assert [one.id for one in playhead.evaluations(limit=1)] == [started.id]


def test_an_archived_session_is_listed_only_on_request(playhead: Playhead, session_id: UUID) -> None:
    playhead.archive_session(session_id)
    assert list(playhead.sessions()) == []
    assert [item.id for item in playhead.sessions(status="archived")] == [session_id]


def test_sessions_are_found_by_their_fields(playhead: Playhead) -> None:
    both = playhead.create_session(title="one", tags=["x", "y"], agent="a").id
    playhead.create_session(title="two", tags=["x"])
    assert [item.id for item in playhead.sessions(tags=["x", "y"])] == [both]
    assert [item.id for item in playhead.sessions(q="one", agent="a", errors=False)] == [both]
    assert list(playhead.sessions(errors=True)) == []
    assert [item.id for item in playhead.sessions(sort="started", agent=["a", "b"], first=date(2026, 3, 1))]
    assert list(playhead.sessions(last="2026-03-01")) == []
    facets = playhead.session_facets(tags=["x", "y"])
    assert (facets.total, [(tag.value, tag.count) for tag in facets.tag]) == (1, [("x", 1), ("y", 1)])


def test_a_list_iterates_over_all_pages(playhead: Playhead, session_id: UUID) -> None:
    playhead.append(session_id, [ModelInput(content=str(n)) for n in range(7)])
    assert [entry.position for entry in playhead.entries(session_id, limit=3)] == [1, 2, 3, 4, 5, 6, 7]
    newest = playhead.entries(session_id, limit=3, order="newest", before=6)
    assert [entry.position for entry in islice(newest, 4)] == [5, 4, 3, 2]


def test_entries_are_returned_unchanged(playhead: Playhead, session_id: UUID) -> None:
    given = (
        SystemInstruction(text=ODD),
        EntryDraft(ModelInput(content=ODD), NOON, {"odd": ODD, "nothing": None}),
        {"kind": "debug_log", "category": "c", "message": ODD},
    )
    assert playhead.append(session_id, given, expected_position=0).positions == [1, 2, 3]
    first, second, third = playhead.entries(session_id)
    assert (first.body, third.body) == (given[0], DebugLog(category="c", message=ODD))
    assert second.body == ModelInput(content=ODD)
    assert (second.created_at, second.metadata) == (NOON, {"odd": ODD, "nothing": None})
    assert playhead.entry(session_id, 2) == second
    assert second.fields["content"] == ODD


def test_a_time_without_a_zone_is_local_time(playhead: Playhead, session_id: UUID) -> None:
    local = NOON.astimezone().replace(tzinfo=None)
    playhead.append(session_id, [EntryDraft(ModelInput(content="go"), local)])
    assert playhead.entry(session_id, 1).created_at == NOON


def test_an_action_and_each_sort_of_result_are_registered(playhead: Playhead, session_id: UUID) -> None:
    action = ActionProposal(
        thoughts=Thoughts(summary="look"),
        use_tool=UseTool(name="ls", arguments={"path": ODD, "deep": None}),
        raw_message={"content": "ls()"},
    )
    results = (
        ActionSuccess(outputs={"a": None}),
        ActionError(reason="no", error=from_exception(ValueError("no", 1))),
        ActionInterrupted(feedback="stop"),
    )
    for result in results:
        playhead.register_action(session_id, action, metadata={"cost": 0.5}, created_at=NOON)
        registered = playhead.register_result(session_id, result, expected_position=None)
    assert (registered.number, registered.head) == (3, 6)
    steps = list(playhead.full_episodes(session_id))
    assert [step.status for step in steps] == ["success", "error", "interrupted_by_human"]
    assert [step.action and step.action.arguments for step in steps] == [{"path": ODD, "deep": None}] * 3
    success, error, interrupted = (step.result for step in steps)
    assert success is not None
    assert success.outputs == {"a": None}
    assert error is not None
    assert error.error is not None
    assert (error.reason, error.error.exception_type, error.error.args) == ("no", "ValueError", ["no", 1])
    assert interrupted is not None
    assert interrupted.feedback == "stop"
    assert steps[0].thoughts == {"summary": "look"}
    assert steps[0].call == "ls(path='lone \\ud800, NUL \\x00, <script>, ünï', deep=None)"
    assert playhead.session(session_id).cost == 1.5


def test_a_complete_step_is_appended_in_one_request(playhead: Playhead, session_id: UUID) -> None:
    judged = {"score": 0.5, "passed": False}
    registered = playhead.append_step(
        session_id,
        analysis_result=None,
        execution_result=["x"],
        supervision_result=judged,
        timestamp=NOON,
    )
    assert (registered.number, registered.head) == (1, 3)
    assert playhead.episode(session_id, 1).started_at == NOON
    assert playhead.entry(session_id, 3).fields["supervision"] == judged


def test_steps_are_read_from_either_end(playhead: Playhead, three: UUID) -> None:
    assert [step.number for step in playhead.episodes(three, from_step=-2, limit=1)] == [2, 3]
    newest = playhead.episodes(three, to_step=2, order="newest")
    assert [step.call_preview for step in newest] == ["tool_2()", "tool_1()"]
    assert playhead.episode(three, -1).format().startswith("Executed `tool_3()`")


def test_the_history_is_read_as_text_and_as_messages(playhead: Playhead, three: UUID) -> None:
    assert playhead.progress(three, from_step=3) == "3. Executed `tool_3()`: 3"
    assert playhead.progress(three, "paragraph", to_step=1).startswith("### Step 1: Executed")
    assert playhead.progress(three, "compiled", max_tokens=0) == ""
    read = playhead.messages(three)
    assert read.messages[-1].as_dict() == {"role": "user", "content": "tool_3 returned: `3`"}
    assert read.manifest.policy == "episodic"
    assert playhead.messages(three, max_tokens=0).manifest.max_tokens == 0


def test_every_read_takes_a_position(playhead: Playhead, three: UUID) -> None:
    playhead.write_summary(three, 1, 1, "early")
    playhead.rewind(three, episodes=2)
    assert playhead.session(three).steps == 1
    assert playhead.session(three, as_of=4).steps == 2
    assert [entry.position for entry in playhead.entries(three, as_of=3)] == [1, 2, 3]
    assert playhead.entry(three, 3, as_of=6).live
    assert not playhead.entry(three, 3).live
    assert [step.number for step in playhead.episodes(three, as_of=6)] == [1, 2, 3]
    assert [step.number for step in playhead.full_episodes(three, as_of=4)] == [1, 2]
    assert playhead.episode(three, -1, as_of=4).number == 2
    assert playhead.progress(three, as_of=2) == "1. Executed `tool_1()`: 1"
    assert len(playhead.messages(three, as_of=6).messages) == 6
    assert list(playhead.rewinds(three, as_of=6)) == []
    assert list(playhead.summaries(three, as_of=1)) == []
    assert b"tool_3" in b"".join(playhead.export(three, format="markdown", as_of=6))


def test_a_rewind_reports_its_cut_and_can_be_undone(playhead: Playhead, three: UUID) -> None:
    done = playhead.rewind(three, to_step=1, reason="wrong", expected_position=6)
    assert (done.to_position, done.steps_cut, done.head) == (2, 2, 7)
    assert [(cut.first_position, cut.last_position) for cut in done.cut_off] == [(3, 6)]
    (take,) = playhead.rewinds(three)
    assert (take.position, take.reason) == (done.position, "wrong")
    assert [entry.position for entry in playhead.entries(three, take="all", after=2, before=7)] == [
        3,
        4,
        5,
        6,
    ]
    playhead.undo_rewind(three, done.position)
    assert playhead.session(three).steps == 3


def test_a_rewind_can_name_a_position(playhead: Playhead, three: UUID) -> None:
    assert playhead.rewind(three, to_position=4).steps_cut == 1


def test_a_summary_replaces_its_steps(playhead: Playhead, three: UUID) -> None:
    made = playhead.write_summary(three, 1, 2, ODD, key_points=["k"])
    assert (made.from_step, made.to_step, made.text, made.key_points) == (1, 2, ODD, ["k"])
    assert list(playhead.summaries(three, limit=1)) == [made]


def test_a_fork_is_independent_of_its_parent(playhead: Playhead, three: UUID) -> None:
    id = uuid4()
    child = playhead.fork(three, at_step=1, title="other", id=id)
    assert (child.id, child.title, child.steps, child.forked_from) == (id, "other", 1, three)
    assert playhead.fork(three, at_position=4).steps == 2


def test_an_export_can_be_imported(playhead: Playhead, three: UUID, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_bytes(b"".join(playhead.export(three)))
    for added in (6, 0):
        (report,) = playhead.import_files([file]).files
        assert (report.format, [session_report.added for session_report in report.sessions]) == (
            "playhead_jsonl",
            [added],
        )
    chat = b'[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]'
    (made,) = playhead.import_files([("sum.json", chat)], format="openai_chat").files
    assert playhead.session(made.sessions[0].id).title == "2 + 2?"


def test_the_address_can_end_with_the_api_root(live_server: LiveServer, api_key: str) -> None:
    with Playhead(f"{live_server.url}/api/v1/", api_key) as client:
        assert list(client.sessions()) == []


def test_an_id_cannot_change_the_path(playhead: Playhead, session_id: UUID) -> None:
    for id in ("../sessions", f"{session_id}/entries", "?limit=1", "%2e", "", "ü" * 1000):
        with pytest.raises(NotFound):
            playhead.session(id)


def test_the_asynchronous_client_does_the_same(live_server: LiveServer, api_key: str) -> None:
    async def run() -> None:
        async with AsyncPlayhead(live_server.url, api_key) as client:
            made = await client.create_session(title="a run")
            await client.append(made.id, [ModelInput(content=str(n)) for n in range(5)])
            assert [entry.position async for entry in client.entries(made.id, limit=2)] == [1, 2, 3, 4, 5]
            await client.register_action(made.id, ActionProposal(use_tool=UseTool(name="ls")))
            assert await client.progress(made.id) == "1. Executed `ls()`."
            assert await client.archive_session(made.id) is None  # type: ignore[func-returns-value]
            text = await joined(client.export(made.id, format="markdown"))
            assert text.startswith(b"# a run")
            (file,) = (await client.import_files([("m.jsonl", await joined(client.export(made.id)))])).files
            assert file.sessions[0].steps == 1

    asyncio.run(run())


async def joined(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def test_events_are_read_page_by_page(playhead: Playhead, three: UUID, settled: None) -> None:
    first = playhead.events(limit=2)
    assert [event.kind for event in first.items] == ["session_created", "entries"]
    rest = playhead.events(after=first.next)
    assert [event.position for event in rest.items] == [2, 3, 4, 5, 6]
    assert playhead.events(after=rest.next).items == []


def test_figures_of_the_project_are_read_by_day(playhead: Playhead) -> None:
    figures = playhead.figures(first=date(2026, 3, 1), last=date(2026, 3, 2), by="tool")
    assert (figures.first, figures.last, figures.items) == (date(2026, 3, 1), date(2026, 3, 2), [])


def test_a_follower_gets_each_event_once_over_many_connections(
    live_server: LiveServer, playhead: Playhead, three: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This server ends each stream at once, so the client opens a new connection for each append."""
    monkeypatch.setattr(http_messages, "RECONNECT_SECONDS", 0.0)
    everything = playhead.follow_events(after=playhead.events().items[0].cursor)
    assert [event.position for event in islice(everything, 6)] == [1, 2, 3, 4, 5, 6]
    followed = playhead.follow_session(three, after=playhead.events().items[-1].cursor)
    for position in (7, 8):
        playhead.append(three, [ModelInput(content="go on")])
        assert next(iter(followed)).position == position
    with pytest.raises(NotFound):
        next(iter(playhead.follow_session(uuid4())))


def test_the_async_client_follows_too(
    live_server: LiveServer, playhead: Playhead, three: UUID, api_key: str
) -> None:
    async def run() -> None:
        async with AsyncPlayhead(live_server.url, api_key) as client:
            page = await client.events()
            async for event in client.follow_session(three, after=page.items[0].cursor):
                assert event.position == 1
                break

    asyncio.run(run())


def test_a_session_is_shared_and_the_link_revoked(playhead: Playhead) -> None:
    session = playhead.create_session().id
    made = playhead.share(session, inputs=True)
    assert "/s/" in made.url
    playhead.revoke_share(session, made.id)
    (listed,) = playhead.shares(session)
    assert (listed.id, listed.inputs, listed.state) == (made.id, True, "revoked")


def test_a_search_is_suggested_saved_renamed_and_deleted(playhead: Playhead) -> None:
    assert [item.text for item in playhead.search_suggestions("stat").items] == ["status:"]
    made = playhead.save_search("Failed tests", "status:failed")
    assert playhead.rename_search(made.id, "Failures").name == "Failures"
    assert [saved.name for saved in playhead.saved_searches()] == ["Failures"]
    playhead.delete_search(made.id)
    assert list(playhead.saved_searches()) == []
