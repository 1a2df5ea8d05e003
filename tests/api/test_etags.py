"""A client that already has the response gets 304, but never if anything has changed."""

from collections.abc import Callable

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.api.agent import Agent, ask

READS = [
    "",
    "/entries",
    "/entries/1",
    "/episodes",
    "/episodes/1",
    "/progress",
    "/messages",
    "/summaries",
    "/rewinds",
]


@pytest.fixture
def stepped(run: Agent) -> Agent:
    run.step()
    return run


@pytest.mark.parametrize("path", READS)
def test_an_unchanged_session_is_not_sent_again(
    stepped: Agent, path: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    first = stepped.get(path)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"')
    with django_assert_num_queries(2):
        again = stepped.get(path, {"If-None-Match": f'"other", {tag}'})
    assert (again.status, again.body, again.headers["ETag"]) == (304, None, tag)


def test_another_query_has_another_etag(stepped: Agent) -> None:
    tag = stepped.get("/entries").headers["ETag"]
    assert stepped.get("/entries?limit=1", {"If-None-Match": tag}).status == 200


def test_every_kind_of_change_changes_the_etag(stepped: Agent) -> None:
    changes: list[Callable[[], object]] = [
        lambda: stepped.append(ask()),
        lambda: stepped.act(),
        lambda: stepped.succeed(),
        lambda: stepped.post("/summaries", {"from_step": 1, "to_step": 1, "text": "x"}),
        lambda: stepped.post("/rewinds", {"to_step": 1}),
        lambda: stepped.patch("", {"title": "x"}),
        lambda: stepped.patch("", {"settings": {"full_message_count": 0}}),
        lambda: stepped.delete(),
    ]
    tags = [stepped.get("/messages").headers["ETag"]]
    for change in changes:
        change()
        tags.append(stepped.get("/messages").headers["ETag"])
    assert len(set(tags)) == len(changes) + 1


def test_a_summary_made_in_a_parent_or_in_a_fork_changes_both(alice: Agent, stepped: Agent) -> None:
    fork = alice.within(f"/sessions/{stepped.post('/forks')['id']}")
    for writer in (stepped, fork):
        tags = [agent.get("/episodes/1").headers["ETag"] for agent in (stepped, fork)]
        writer.post("/summaries", {"from_step": 1, "to_step": 1, "text": "x"})
        again = [
            agent.get("/episodes/1", {"If-None-Match": tag}).status
            for agent, tag in zip((stepped, fork), tags, strict=True)
        ]
        assert again == [200, 200]


def test_a_stranger_with_the_right_etag_gets_a_404(stepped: Agent, charlie: Agent, session_id: str) -> None:
    tag = stepped.get().headers["ETag"]
    assert charlie.get(f"/sessions/{session_id}", {"If-None-Match": tag}).status == 404
    assert charlie.get(f"/sessions/{session_id}", {"If-None-Match": "*"}).status == 404


def test_a_star_matches_any_etag(stepped: Agent) -> None:
    assert stepped.get("", {"If-None-Match": "*"}).status == 304


@pytest.mark.parametrize("header", ["", '"', "W/", 'W/"0-0"', "\x00", '"*"'])
def test_an_unknown_etag_gets_the_full_response(stepped: Agent, header: str) -> None:
    assert stepped.get("", {"If-None-Match": header}).status == 200
