"""Tags, a note and a score of a session over the API."""

import pytest

from historyapp.models import Annotation, Change, Project, Session
from tests.api.agent import Agent
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem


@pytest.fixture
def run(alice: Agent) -> Agent:
    """A session with one tag."""
    return alice.within(f"/sessions/{alice.post('/sessions', {'tags': ['a']})['id']}")


def test_tags_a_note_and_a_score_are_set_and_read(alice: Agent, run: Agent) -> None:
    assert (run.get()["note"], run.get()["score"], run.get()["noted_by"]) == ("", None, "")
    detail = {"add_tags": ["b"], "note": " Kept it. ", "score": 4, "score_name": "helpfulness"}
    changed = run.patch("", detail)
    assert (changed["tags"], changed["note"], changed["score"]) == (["a", "b"], "Kept it.", 4.0)
    assert changed["score_name"] == "helpfulness"
    assert changed["noted_by"].startswith("key:ph_")
    assert changed["scored_at"] == changed["noted_at"] is not None
    assert run.get().body == changed.body
    (item,) = alice.get("/sessions")["items"]
    assert {name: item[name] for name in ("note", "score", "scored_by")} == {
        name: changed[name] for name in ("note", "score", "scored_by")
    }


def test_missing_fields_stay_unchanged_and_empty_values_clear_them(run: Agent) -> None:
    run.patch("", {"note": "n", "score": 0.5, "score_name": "speed"})
    assert run.patch("", {"score": -1})["score_name"] == "speed"
    without_note = run.patch("", {"note": ""})
    assert (without_note["note"], without_note["noted_by"], without_note["noted_at"]) == ("", "", None)
    assert without_note["score"] == -1
    without = run.patch("", {"score": None})
    assert (without["score"], without["score_name"], without["scored_at"]) == (None, "", None)


def test_concurrent_tags_are_all_kept(run: Agent) -> None:
    run.patch("", {"add_tags": ["b", "c"]})
    run.patch("", {"add_tags": ["d"], "remove_tags": ["a", "unknown"]})
    assert run.get()["tags"] == ["b", "c", "d"]
    assert run.patch("", {"tags": ["x"], "add_tags": ["y", "x"]})["tags"] == ["x", "y"]


def test_a_concurrent_change_is_not_replaced(run: Agent) -> None:
    run.patch("", {"note": "first", "score": 1})
    refused = run.patch("", {"note": "second", "title": "t", "expected": {"note": ""}})
    assert_problem(refused, 409, "changed the note", "expected")
    assert refused["current"] == {"note": "first"}
    assert (run.get()["note"], run.get()["title"]) == ("first", "")
    assert run.patch("", {"note": "second", "expected": {"note": "first", "score": 1.0}})["note"] == "second"
    assert_problem(run.patch("", {"score": 2, "expected": {"score": None}}), 409, "score")
    assert_problem(run.patch("", {"tags": [], "expected": {"tags": ["b"]}}), 409, "tags")
    assert run.patch("", {"tags": ["c", "d"], "expected": {"tags": ["a"]}}).status == 200
    assert run.patch("", {"tags": [], "expected": {"tags": ["d", "c"]}})["tags"] == []


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        ({"note": "x" * 2_001}, "2,000"),
        ({"note": None}, "note"),
        ({"note": "a\x00b"}, "note"),
        ({"score": "4"}, "score"),
        ({"score": 1e10}, "score"),
        ({"score_name": "x" * 61}, "60"),
        ({"add_tags": ["x" * 101]}, "add_tags"),
        ({"add_tags": ["a\nb"]}, "add_tags"),
        ({"add_tags": [" "]}, "not a space"),
        ({"add_tags": [f"t{n}" for n in range(50)]}, "at most 50 tags; this one would have 51"),
        ({"expected": {"title": "x"}}, "title"),
    ],
)
def test_invalid_annotations_are_refused(run: Agent, wrong: dict[str, object], detail: str) -> None:
    refused = run.patch("", wrong)
    assert refused.status == 422
    assert detail.replace(",", "") in str(refused.body).replace(",", "")
    assert not Annotation.objects.exists()
    assert run.get()["tags"] == ["a"]


def test_a_score_not_representable_in_json_is_refused(run: Agent) -> None:
    assert run.send("PATCH", "", b'{"score": NaN}').status in (400, 422)
    assert run.send("PATCH", "", b'{"score": 1e999}').status in (400, 422)


def test_a_change_is_announced_and_gives_another_etag(run: Agent) -> None:
    before = run.get().headers["ETag"]
    run.patch("", {"note": "n"})
    assert run.get().headers["ETag"] != before
    assert Change.objects.order_by("-id").first().kind == "session_changed"  # type: ignore[union-attr]


def test_a_fork_keeps_tags_but_not_note_and_score(alice: Agent, run: Agent) -> None:
    run.patch("", {"note": "n", "score": 1})
    fork = run.post("/forks")
    assert (fork["tags"], fork["note"], fork["score"]) == (["a"], "", None)


def test_readers_cannot_annotate_and_strangers_get_404(run: Agent, charlie: Agent, project: Project) -> None:
    session, read_only = Session.objects.get(), Agent(key_for(project, "reader", ("read",)))
    assert charlie.patch(f"/sessions/{session.pk}", {"note": "n"}).status == 404
    assert_problem(read_only.patch(f"/sessions/{session.pk}", {"note": "n"}), 403, "write")
    assert not Annotation.objects.exists()
