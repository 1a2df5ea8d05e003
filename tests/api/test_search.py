"""A search of all sessions finds the steps that match its words, names and facets, and no others."""

from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from historyapp.core.search_query import parse_query
from historyapp.models import SearchStep, Session, search_passages
from historyapp.models.search import MatchingRow, ProjectSearch
from historyapp.models.search_limits import limit_statements
from historyapp.models.search_text_index import match_without_order, words_of_session
from historyapp.services.deletions import delete_search_steps
from historyapp.services.projections import rebuild
from historyapp.services.search import index as search_index
from historyapp.wire.problems import SearchTooSlow
from tests.api.agent import Agent


def search_hits(alice: Agent, q: str) -> list[tuple[str, int]]:
    page = alice.get(f"/search?{urlencode({'q': q})}")
    assert page.status == 200, page.body
    return [(item["session"], item["episode"]) for item in page["items"]]


def edit(run: Agent, path: str, outputs: str) -> None:
    assert run.act("edit_file", path=path, old_string="a", new_string="b").status == 201
    assert run.succeed(outputs).status == 201


@pytest.fixture
def recorded(alice: Agent, run: Agent, session_id: str) -> str:
    run.append({"kind": "model_input", "channel": "user", "content": "Fix EnsureSetup, 请修复搜索"})
    edit(run, "src/hooks_test.go", "changed <b>EnsureSetup</b>")
    run.act("bash", command="go test ./...")
    run.fail("--- FAIL: TestHooks")
    return session_id


QUERIES = [
    ("EnsureSetup", [1]),
    ("ensuresetup", [1]),
    ("Ensur*", [1]),
    ("setup", [1]),
    ("hooks_test.go", [1]),
    ('"go test"', [2]),
    ("go test ./...", [2, 1]),
    ("修复", [1]),
    ("索搜", []),
    ("tool:edit_file", [1]),
    ("file:hooks_test.go", [1]),
    ("file:src/hooks_test.go EnsureSetup", [1]),
    ('command:"go test"', [2]),
    ("status:error", [2]),
    ("has:error fail", [2]),
    ("-status:error", [1]),
    ("has:edit", [1]),
    ("agent:nobody", []),
    ("title:run steps>1", [2, 1]),
    ("cost>1", []),
    ("since:1d", [2, 1]),
    ("until:2020-01-01", []),
    ("test", [2, 1]),
    ("test -fail", [1]),
    ('"go tes*"', [2]),
    ('"test go"', [1]),
    ('test -"go test"', [1]),
    ('"hooks test" -"go test"', [1]),
    ("", [2, 1]),
]


def assert_found(alice: Agent, session: str, queries: list[tuple[str, list[int]]]) -> None:
    """One test looks for all of them: to record the session takes longer than a search."""
    assert {q: search_hits(alice, q) for q, _ in queries} == {
        q: [(session, step) for step in steps] for q, steps in queries
    }


def test_steps_are_found_by_words_names_and_facets(alice: Agent, recorded: str) -> None:
    assert_found(alice, recorded, QUERIES)


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="FTS5 reads positions with the words")
@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ('"go test" fail*', "('p') & ('go') & ('test') & ('fail':*)"),
        ('"go tes*"', "('p') & ('go') & ('tes':*)"),
        ('fail -"go test" -go', "('p') & ('fail') & (!'go')"),
    ],
)
def test_the_index_is_asked_without_the_order_of_words(q: str, expected: str) -> None:
    """For a phrase, PostgreSQL would read the words of every row that has them in any order."""
    terms = parse_query(q, timezone.now()).terms
    assert match_without_order(terms, ["p"]) == expected


def test_a_snippet_shows_the_match_and_its_place(alice: Agent, recorded: str) -> None:
    (item,) = alice.get("/search?q=testhooks")["items"]
    assert (item["field"], item["position"], item["status"]) == ("result", 5, "error")
    assert [item["snippet"][first:last] for first, last in item["marks"]] == ["TestHooks"]


@pytest.mark.django_db(transaction=True)  # the feed of changes shows nothing of a transaction that runs
def test_a_step_grows_in_the_index_with_its_result(alice: Agent, run: Agent, session_id: str) -> None:
    run.act("bash", command="make wombat")
    assert search_hits(alice, "wombat status:in_flight") == [(session_id, 1)]
    run.succeed("quokka")
    assert search_hits(alice, "wombat quokka") == [(session_id, 1)]
    assert search_hits(alice, "status:in_flight") == []
    run.act("bash", command="echo")
    assert search_hits(alice, "quokka") == [(session_id, 1)]
    assert SearchStep.objects.count() == 2


def test_a_stranger_finds_nothing(alice: Agent, charlie: Agent, recorded: str) -> None:
    assert search_hits(alice, "hooks")
    assert search_hits(charlie, "hooks") == []
    assert search_hits(charlie, f"session:{recorded}") == []


def test_takes_are_found_only_on_request_and_forks_show_shared_steps(
    alice: Agent, run: Agent, recorded: str
) -> None:
    fork = run.post("/forks", {"at_step": 2})["id"]
    assert search_hits(alice, "testhooks") == [(recorded, 2)]
    run.post("/rewinds", {"to_step": 1})
    assert search_hits(alice, "testhooks") == [(fork, 2)]
    alice.within(f"/sessions/{fork}").post("/rewinds", {"to_step": 1})
    assert search_hits(alice, "testhooks") == []
    (item,) = alice.get("/search?q=testhooks%20takes:all")["items"]
    assert (item["session"], item["live"]) == (recorded, False)


def test_each_page_continues_where_the_previous_one_ended(alice: Agent, run: Agent, session_id: str) -> None:
    for _ in range(7):
        run.step(outputs="wombat")
    steps, page = list[int](), alice.get("/search?q=wombat&limit=3")
    assert page["facets"]["tool"] == [{"value": "ls", "count": 7}]
    while True:
        steps += [item["episode"] for item in page["items"]]
        if page["next"] is None:
            break
        page = alice.get(f"/search?q=wombat&limit=3&cursor={page['next']}")
    assert steps == [7, 6, 5, 4, 3, 2, 1]


def test_a_cursor_of_another_query_is_refused(alice: Agent, run: Agent) -> None:
    for _ in range(2):
        run.step(outputs="wombat")
    cursor = alice.get("/search?q=wombat&limit=1")["next"]
    assert alice.get(f"/search?q=ls&cursor={cursor}").status == 422
    assert alice.get("/search?q=ls&cursor=WyJmaW5kIl0").status == 422


@pytest.mark.parametrize(
    "q", ["x" * 10_000, "%22no", "a*", "*", "status:bad", "session:1", "cost:1", "+AND+".join("abcdefghi")]
)
def test_the_error_of_an_invalid_query_says_what_to_do(alice: Agent, q: str) -> None:
    refused = alice.get(f"/search?q={q}")
    assert refused.status == 422
    assert refused["detail"]


JOINED: list[tuple[str, list[int]]] = [
    ("file:hooks_test.go has:edit AND command:test has:failure", [1, 2]),
    ("EnsureSetup AND testhooks", [1, 2]),
    ("EnsureSetup AND hooks", [1, 2]),
    ("EnsureSetup AND setup", [1]),
    ("EnsureSetup AND wombat", []),
    ("EnsureSetup AND testhooks agent:nobody", []),
    ("AND EnsureSetup AND AND", [1]),
    ('"EnsureSetup AND"', []),
]


def test_different_steps_of_a_session_can_match_parts_joined_by_and(
    alice: Agent, charlie: Agent, recorded: str
) -> None:
    assert_found(alice, recorded, JOINED)
    assert_found(charlie, recorded, [(q, []) for q, _ in JOINED])


def test_a_fork_has_the_steps_that_it_keeps_and_its_own(alice: Agent, run: Agent, recorded: str) -> None:
    fork = run.post("/forks", {"at_step": 1})["id"]
    alice.within(f"/sessions/{fork}").step(outputs="wombat")
    assert search_hits(alice, "EnsureSetup AND wombat") == [(fork, 1), (fork, 2)]
    assert search_hits(alice, "testhooks AND wombat") == []


@pytest.mark.parametrize(
    ("expected", "counted"),
    [({"testhooks": 9e4, "ensure": 1.0}, ["ensure"]), ({"testhooks": 5e4, "ensure": 9e4}, ["testhooks"])],
)
def test_parts_of_a_query_that_match_many_steps_are_not_counted(
    alice: Agent,
    recorded: str,
    expected: dict[str, float],
    counted: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def word(search: ProjectSearch) -> str:
        return search.query.terms[0].tokens[0]

    read = list[str]()
    candidates = ProjectSearch.candidates

    def read_candidates(search: ProjectSearch, sessions: Any, *limits: int) -> list[MatchingRow]:
        if not isinstance(sessions, list):  # not within one session
            read.append(word(search))
        return candidates(search, sessions, *limits)

    monkeypatch.setattr(ProjectSearch, "candidates", read_candidates)
    monkeypatch.setattr(ProjectSearch, "expected_rows", lambda search: expected.get(word(search), 1.0))
    assert len(search_hits(alice, "EnsureSetup AND testhooks")) == 2
    assert read == counted


def test_each_session_is_on_one_page_of_an_and_search(alice: Agent, recorded: str) -> None:
    sessions = [alice.post("/sessions", {})["id"] for _ in range(5)]
    for session in sessions:
        for outputs in ("wombat", "quokka", "wombat"):
            alice.within(f"/sessions/{session}").step(outputs=outputs)
    shown, page = list[str](), alice.get("/search?q=wombat+AND+quokka&limit=4")
    while True:
        shown += [item["session"] for item in page["items"]]
        if page["next"] is None:
            break
        page = alice.get(f"/search?q=wombat+AND+quokka&limit=4&cursor={page['next']}")
    assert sorted(shown) == sorted(sessions * 2)


def test_operators_of_other_query_languages_are_words(alice: Agent, recorded: str) -> None:
    queries = [
        "' OR 1=1 --",
        "NEAR(EnsureSetup fail)",
        "EnsureSetup NOT fail",
        "a:b:c",
    ]
    assert_found(alice, recorded, [(q, []) for q in queries])
    page = alice.get("/search?q=EnsureSetup+OR+fail")  # no single step has all three words
    assert page["wider"] == "EnsureSetup AND has:failure"
    assert page["hints"] == [
        "OR is searched as a word, and all words must match. Search for each alternative separately."
    ]


def test_a_query_of_punctuation_finds_every_step(alice: Agent, recorded: str) -> None:
    assert_found(alice, recorded, [(q, [2, 1]) for q in ("%", "%%% _", "-", "(((", "\\")])


def test_archived_sessions_are_left_out_unless_named(alice: Agent, run: Agent, recorded: str) -> None:
    assert search_hits(alice, "testhooks")
    run.patch("", {"status": "archived"})
    assert search_hits(alice, "testhooks") == []
    assert search_hits(alice, f"testhooks session:{recorded}") == [(recorded, 2)]


def test_rebuilding_gives_equal_rows_and_restores_lost_ones(alice: Agent, run: Agent, recorded: str) -> None:
    assert search_hits(alice, "testhooks")
    session = Session.objects.get(pk=recorded)
    rows = list(SearchStep.objects.order_by("id").values())
    assert rebuild(session).differences == []
    assert list(SearchStep.objects.order_by("id").values()) == rows
    assert words_of_session(session.pk) == {row["id"] for row in rows}
    SearchStep.objects.filter(step=2).update(checksum=1)
    assert rebuild(session).differences == [f"search row {rows[1]['first_position']} differed"]
    assert rebuild(session).differences == []
    assert search_hits(alice, "testhooks") == [(recorded, 2)]


def test_steps_older_than_the_index_are_added(alice: Agent, run: Agent, session_id: str) -> None:
    run.step(outputs="wombat")
    project = Session.objects.get().project_id
    search_index._progress(project)
    assert search_index.catch_up(project, lambda: False)
    assert search_hits(alice, "wombat") == [(session_id, 1)]


def test_steps_that_another_process_has_left_are_added(
    alice: Agent, run: Agent, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        run.step(outputs="wombat")
    monkeypatch.setattr(search_index, "MAX_STEPS", 1)
    monkeypatch.setattr(search_index, "READ_SECONDS", 10)  # on a busy machine, 0.15 s are too short
    store, project = search_index._store, Session.objects.get().project_id

    def store_second(session: Session, some: Any, newest: SearchStep | None) -> SearchStep:
        monkeypatch.setattr(search_index, "_store", store)
        assert not search_index.index_session(session.pk, lambda: True)
        return store(session, some, newest)

    monkeypatch.setattr(search_index, "_store", store_second)
    assert not search_index.catch_up(project, lambda: False)
    assert search_hits(alice, "wombat") == [(session_id, step) for step in (3, 2, 1)]


def test_no_token_of_a_deleted_session_stays(alice: Agent, run: Agent, recorded: str) -> None:
    assert search_hits(alice, "testhooks")
    session = Session.objects.get(pk=recorded)
    delete_search_steps(session.pk)
    assert SearchStep.objects.count() == 0
    assert words_of_session(session.pk) == set()


def test_a_search_takes_the_same_number_of_queries_at_any_length(alice: Agent, run: Agent) -> None:
    from tests.api.test_query_counts import cost

    counts = []
    for _ in range(2):
        for _ in range(15):
            run.step(outputs="wombat")
        alice.get("/search?q=wombat")
        counts.append(len(cost(lambda: alice.get("/search?q=wombat&limit=5"))))
    assert counts[0] == counts[1] <= 12


def test_snippets_read_some_entries_of_a_long_step(
    alice: Agent, run: Agent, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = ["wombat first", "quokka " * 5_000, "numbat third", "dingo fourth"]
    run.append(*[{"kind": "model_input", "channel": "user", "content": content} for content in contents])
    run.act("bash", command="make emu")
    run.succeed("ibis")

    def snippet(q: str) -> str:
        (item,) = alice.get(f"/search?q={q}")["items"]
        return str(item["snippet"])

    words = ("wombat", "quokka", "numbat", "dingo", "emu", "ibis")
    assert all(word in snippet(word) for word in words)
    monkeypatch.setattr(search_passages, "MAX_READ", 3_000)
    monkeypatch.setattr(search_passages, "NEAR", 3)
    assert [word in snippet(word) for word in words] == [True, False, True, False, True, True]


def suggested(alice: Agent, q: str) -> list[str]:
    response = alice.get(f"/search/suggestions?{urlencode({'q': q})}")
    assert response.status == 200, response.body
    return [q[: response["start"]] + item["text"] for item in response["items"]]


COMPLETED: dict[str, list[str]] = {
    "to": ["tokens>", "tool:"],
    "wombat -ta": ["wombat -tag:", "wombat -takes:"],
    "tool:": ["tool:bash", "tool:edit_file"],
    "tool:ed": ["tool:edit_file"],
    "-tool:edi": ["-tool:edit_file"],
    "file:hoo": ["file:src/hooks_test.go"],
    "file:": ["file:src/hooks_test.go"],
    "command:": ['command:"go test ./..."'],
    'command:"go te': ['command:"go test ./..."'],
    "status:erro": ["status:error"],
    "has:sh": ["has:shell"],
    "agent:": [],
    "title:": ['title:"a run"'],
    "since:7": ["since:7d"],
    "Ensu": ["EnsureSetup"],
    "tool:bash FAI": ["tool:bash FAIL"],
    "wombat": [],
    "cost>": [],
    "ab": [],
}


def test_suggestions_complete_the_last_word(alice: Agent, charlie: Agent, recorded: str) -> None:
    search_hits(alice, "hooks")
    assert {q: sorted(suggested(alice, q)) for q in COMPLETED} == COMPLETED
    for own in ("tool:ed", "file:", "command:", "title:", "Ensu"):
        assert suggested(charlie, own) == []


def test_suggestions_take_any_text(alice: Agent, recorded: str) -> None:
    search_hits(alice, "hooks")
    for q in ("", '"', '"' * 9, "%", "*", "file:%", "tool:*", "[", "x" * 500, "file:[(", "-"):
        suggested(alice, q)


def test_archived_sessions_and_takes_are_not_suggested(alice: Agent, run: Agent, recorded: str) -> None:
    search_hits(alice, "hooks")
    run.post("/rewinds", {"to_step": 1})
    assert suggested(alice, "testho") == []
    assert suggested(alice, "Ensu") == ["EnsureSetup"]
    run.patch("", {"status": "archived"})
    assert suggested(alice, "Ensu") == suggested(alice, "title:") == []


@pytest.mark.django_db
def test_a_search_of_many_short_statements_has_a_time_limit_too() -> None:
    with pytest.raises(SearchTooSlow), limit_statements(0):
        Session.objects.exists()
