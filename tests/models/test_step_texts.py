"""Searching steps by a text or a file finds what reading every step finds, in both directions, in parts."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django.plugin import DjangoDbBlocker

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall
from historyapp.models import Project, Session, TextBlock, step_texts, text_search
from historyapp.models.history import History
from historyapp.models.step_filters import SearchCursor, StepFilter, StepSearch
from historyapp.services.append import append
from historyapp.services.notes import put_note
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.text_index import index_text
from tests.services.drafts import act, answer, ask, ok

pytestmark = pytest.mark.django_db
COUNT = 400
RANGES = [range(1, COUNT + 1), range(COUNT, 0, -1), range(90, 211), range(210, 89, -1)]


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


@pytest.fixture(scope="module")
def recorded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[UUID]:
    """Each seventh step edits ``src/app.py``, each step before it mentions the file, every fifth fails.

    Each test undoes its changes.
    """
    drafts: list[EntryDraft] = []
    for number in range(1, COUNT + 1):
        if number % 50 == 0:
            drafts.append(ask(f"Now part {number}, please"))
        if number % 7 == 0:
            drafts.append(act("edit", file_path="/w/src/app.py", new_string="x"))
        elif number % 7 == 6:
            drafts.append(act("bash", command="python /w/src/app.py"))
        else:
            drafts.append(act("read", path=f"other_{number}.txt"))
        drafts.append(ok(outputs="even" if number % 2 == 0 else "odd"))
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="Alice's")
        session = create_session(project)
        append(project, session.pk, drafts)
        yield session.pk
        transaction.set_rollback(True)


@pytest.fixture(params=["scanned", "indexed", "in parts"])
def long(
    request: pytest.FixtureRequest, recorded: UUID, db: None, monkeypatch: pytest.MonkeyPatch
) -> Session:
    if request.param == "indexed":
        assert index_text(recorded)
    if request.param == "in parts":
        monkeypatch.setattr(step_texts, "MAX_HITS", 15)
        monkeypatch.setattr(step_texts, "MAX_BACKWARDS", 15)
    return Session.objects.get(pk=recorded)


def matching_steps(session: Session, step_filter: StepFilter, within: range, limit: int = 25) -> list[int]:
    return list(_pages(History(session), step_filter, within, limit))


def _pages(history: History, step_filter: StepFilter, within: range, limit: int) -> Iterator[int]:
    mark: SearchCursor | None = None
    while True:
        rows, more = StepSearch(history, step_filter, within).find(limit, mark)
        yield from (row.number for row in rows)
        if more is None:
            return
        assert mark is None or (more.number - mark.number) * within.step > 0, "each search gets on"
        mark = more


def test_texts_files_and_other_filters_are_found_and_combined(long: Session) -> None:
    both = StepFilter(text="even", file="src", kind="edit")
    for within in RANGES:
        assert matching_steps(long, StepFilter(file="App.py"), within) == [
            one for one in within if one % 7 == 0
        ]
        assert matching_steps(long, StepFilter(text="EVEN"), within) == [
            one for one in within if one % 2 == 0
        ]
        assert matching_steps(long, StepFilter(text="now part"), within) == [
            one for one in within if one % 50 == 0
        ]
        assert matching_steps(long, both, within) == [one for one in within if one % 14 == 0]
        assert matching_steps(long, StepFilter(text="nowhere"), within) == []


def test_a_match_in_one_of_several_calls_is_enough(project: Project) -> None:
    session = create_session(project)
    calls = (
        ToolCall(id="a", name="bash", arguments={"command": "ls"}),
        ToolCall(id="b", name="read", arguments={"path": "src/app.py"}),
    )
    append(
        project,
        session.pk,
        [EntryDraft(ModelOutput(tool_calls=calls)), ok("a"), ok("b"), answer("src/app.py")],
    )
    session.refresh_from_db()
    assert matching_steps(session, StepFilter(file="app.py"), range(1, 3)) == [1]
    assert matching_steps(session, StepFilter(text="app.py"), range(1, 3)) == [1, 2]


def test_only_live_steps_are_found_also_in_forks(project: Project) -> None:
    session = create_session(project)
    for word in ("one", "two", "three"):
        append(project, session.pk, [act("read", path=f"{word}.txt"), ok(outputs=word)])
    session.refresh_from_db()
    child = fork(project, session.pk, at_position=4)
    append(project, child.pk, [act("read", path="three.txt"), ok()])
    rewind(project, session.pk, Target(to_position=2))
    for one in (session, child):
        one.refresh_from_db()
    assert matching_steps(session, StepFilter(text="two"), range(1, 2)) == []
    assert matching_steps(child, StepFilter(text="two"), range(1, 4)) == [2]
    assert matching_steps(child, StepFilter(file="three.txt"), range(3, 0, -1)) == [3]


def test_an_input_after_the_newest_step_belongs_to_it(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [act(), ok(), ask("and now the totals")])
    session.refresh_from_db()
    assert matching_steps(session, StepFilter(text="totals"), range(1, 2)) == [1]


def test_notes_and_texts_are_combined(project: Project) -> None:
    session = create_session(project)
    for word in ("one", "two", "two"):
        append(project, session.pk, [act(), ok(outputs=word)])
    for number in (1, 2):
        put_note(project, session.pk, number, "look")
    session.refresh_from_db()
    assert matching_steps(session, StepFilter(text="two", noted=True), range(1, 4)) == [2]
    assert (
        matching_steps(session, StepFilter(text="two", since=datetime(2100, 1, 1, tzinfo=UTC)), range(1, 4))
        == []
    )


def test_a_search_from_the_newest_end_takes_few_queries(
    long: Session, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(8):
        numbers = step_texts.steps_with_text(History(long), "even", range(COUNT, 0, -1)).numbers
    assert numbers[0] == COUNT
    assert numbers == sorted(numbers, reverse=True)


def test_searches_in_both_directions_share_reads_of_the_index(long: Session) -> None:
    history = History(long)
    history.load([200, 201])
    with CaptureQueriesContext(connection) as captured:
        step_texts.read_around(history, 201, ["even"])
        before = step_texts.steps_with_text(history, "even", range(200, 0, -1), 20)
        after = step_texts.steps_with_text(history, "even", range(201, COUNT + 1), 20)
    blocks = [query["sql"] for query in captured if "historyapp_textblock" in query["sql"]]
    assert len(blocks) == (2 if TextBlock.objects.exists() else 1)
    assert before.numbers[:2] == [200, 198]
    assert after.numbers[:2] == [202, 204]


def test_a_search_for_a_text_stops_after_the_requested_number_of_steps(long: Session) -> None:
    for within in (range(100, COUNT), range(300, 0, -1)):
        page = step_texts.steps_with_text(History(long), "even", within, 8)
        reached = page.reached
        assert reached is not None
        searched = [one for one in within if (one <= reached if within.step > 0 else one >= reached)]
        assert page.numbers == [one for one in searched if one % 2 == 0]
        assert 0 < len(page.numbers) <= 8


def test_a_search_for_a_file_stops_after_it_has_parsed_many_command_lines(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    for _ in range(6):
        append(project, session.pk, [act("bash", command="cat my_app.pyc" + " b" * 60), ok()])
    append(project, session.pk, [act("read", path="app.py"), ok()])
    session.refresh_from_db()
    monkeypatch.setattr(text_search, "MAX_PARSED", 300)
    history, within = History(session), range(1, 8)
    page = step_texts.steps_with_file(history, "app.py", within)
    assert page.named_file
    assert page.named_file.parsed < 500
    assert (page.numbers, page.reached) == ([], 2)
    assert matching_steps(session, StepFilter(file="app.py"), within) == [7]
    assert matching_steps(session, StepFilter(file="app.py"), within[::-1]) == [7]
