"""The filters, the order and the facets of the list of sessions."""

from typing import Any
from urllib.parse import quote

import pytest

from historyapp.core.dates import UNDATED
from historyapp.models import Session
from tests.api.agent import Agent
from tests.api.conftest import Owner
from tests.api.test_problems import assert_problem

RUNS: list[tuple[str, dict[str, Any], str]] = [
    ("a", {"agent": "fixer", "model": "m1", "tags": ["bug", "red"], "metadata": {"cwd": "/srv/app"}}, "01"),
    ("b", {"agent": "fixer", "model": "m2", "tags": ["bug"], "metadata": {"cwd": "/srv/app/"}}, "02"),
    (
        "c",
        {"agent": "writer", "model": "m2", "metadata": {"repository": "git@example.org:acme/docs.git"}},
        "03",
    ),
    ("d", {"agent": "writer, the 2nd", "tags": ["red"]}, "04"),
]


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> dict[str, str]:
    made, alice = {}, owner.agent
    for title, fields, day in RUNS:
        made[title] = alice.post("/sessions", {"title": title, **fields})["id"]
        run = alice.within(f"/sessions/{made[title]}")
        output = {"kind": "model_output", "text": title, "created_at": f"2026-03-{day}T23:30:00Z"}
        run.append(output)
    failing = alice.within(f"/sessions/{made['a']}")
    failing.act()
    failing.fail()
    Session.objects.filter(pk=made["a"]).update(last_entry_at="2026-03-01T12:00:00Z", shown_tokens=50)
    Session.objects.filter(pk=made["b"]).update(likely_failures=2, shown_tokens=70)
    alice.delete(f"/sessions/{made['d']}")
    return made


@pytest.fixture
def runs(recorded: dict[str, str], db: None) -> dict[str, str]:
    """Ids by title. The first has an error; the last is archived."""
    return recorded


def listed(agent: Agent, query: str) -> str:
    return "".join(item["title"] for item in agent.get(f"/sessions?{query}")["items"])


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("agent=fixer", "ba"),
        ("agent=fixer&agent=writer", "cba"),
        ("agent=fixer&model=m2", "b"),
        (f"agent={quote('writer, the 2nd')}&status=all", "d"),
        ("model=m1&model=m2&tag=bug", "ba"),
        ("folder=/srv/app", "ba"),
        ("repository=example.org/acme/docs", "c"),
        ("likely_failures=true", "b"),
        ("likely_failures=false&errors=false", "c"),
        ("from=2026-03-02", "cb"),
        ("to=2026-03-02", "ba"),
        ("from=2026-03-02&to=2026-03-02", "b"),
        ("from=2026-03-02&status=all", "dcb"),
        ("to=9999-12-31&from=2026-03-03", "c"),
        ("sort=last_entry", "abc"),
        ("sort=-tokens&agent=fixer", "ba"),
        ("sort=tokens&agent=fixer", "ab"),
        ("sort=-model&agent=writer&agent=fixer", "cba"),
    ],
)
def test_filters_combine(alice: Agent, runs: dict[str, str], query: str, titles: str) -> None:
    actual = listed(alice, query)
    assert actual == titles if "sort=-model" not in query else sorted(actual) == sorted(titles)


def test_undated_runs_belong_to_no_day(alice: Agent, runs: dict[str, str]) -> None:
    Session.objects.filter(pk=runs["c"]).update(last_entry_at=UNDATED)
    assert listed(alice, "to=2026-12-31") == "ba"
    assert listed(alice, "undated=true") == "c"
    assert listed(alice, "undated=false") == "ba"


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("sort=title", "`sort` must be one of last_entry, started"),
        ("from=2026-03-02&to=2026-03-01", "`to` is 2026-03-01, which is before `from`, 2026-03-02"),
        ("from=2026-02-30", "query.from"),
        ("likely_failures=1", "query.likely_failures"),
        ("undated=maybe", "query.undated"),
        ("&".join(f"model=m{n}" for n in range(21)), "query.model"),
        ("cursor=zzz", "This cursor belongs to another list"),
    ],
)
def test_the_error_of_an_invalid_filter_gives_the_reason(alice: Agent, query: str, detail: str) -> None:
    assert_problem(alice.get(f"/sessions?{query}"), 422, detail)


def test_a_cursor_belongs_to_its_filters_and_its_order(alice: Agent, runs: dict[str, str]) -> None:
    cursor = quote(alice.get("/sessions?limit=1&sort=-steps")["next"])
    seen = alice.get(f"/sessions?limit=2&sort=-steps&cursor={cursor}")
    assert len(seen["items"]) == 2
    for other in (
        "",
        "sort=steps",
        "sort=-steps&agent=fixer",
        "sort=-steps&from=2026-01-01",
        "sort=-steps&id=0",
    ):
        refused = alice.get(f"/sessions?limit=1&{other}&cursor={cursor}")
        assert_problem(refused, 422, "This cursor belongs to another list")


def facets(agent: Agent, query: str = "") -> dict[str, dict[str, int]]:
    response = agent.get(f"/facets?{query}").body
    return {
        name: {choice["value"]: choice["count"] for choice in values}
        for name, values in response.items()
        if name != "total"
    } | {"total": {"": response["total"]}}


def test_facets_count_the_sessions_of_the_list(alice: Agent, runs: dict[str, str]) -> None:
    assert facets(alice) == {
        "total": {"": 3},
        "status": {"live": 3, "archived": 1},
        "agent": {"fixer": 2, "writer": 1},
        "model": {"m2": 2, "m1": 1},
        "repository": {"example.org/acme/docs": 1},
        "folder": {"/srv/app": 2},
        "tag": {"bug": 2, "red": 1},
        "errors": {"false": 2, "true": 1},
        "likely_failures": {"false": 2, "true": 1},
    }


def test_a_facet_counts_the_sessions_of_each_other_choice(alice: Agent, runs: dict[str, str]) -> None:
    counts = facets(alice, "agent=fixer&model=m2")
    assert counts["total"] == {"": 1}
    assert counts["agent"] == {"fixer": 1, "writer": 1}
    assert counts["model"] == {"m1": 1, "m2": 1}
    assert counts["folder"] == {"/srv/app": 1}
    assert counts["errors"] == {"false": 1}
    assert facets(alice, "tag=bug")["tag"] == {"bug": 2, "red": 1}
    assert facets(alice, "tag=bug&tag=red")["tag"] == {"bug": 1, "red": 1}
    assert facets(alice, "errors=true")["errors"] == {"true": 1, "false": 2}


@pytest.mark.parametrize(
    "query", ["agent=fixer", "model=m2&errors=false", "tag=red", "status=all", "from=2026-03-02"]
)
def test_each_count_is_the_length_of_the_list(alice: Agent, runs: dict[str, str], query: str) -> None:
    """Every value of every facet, chosen in addition or in place of the other one."""
    counts = facets(alice, query)
    assert counts.pop("total") == {"": len(listed(alice, query))}
    given = [part.partition("=")[::2] for part in query.split("&")]
    for facet, values in counts.items():
        kept = [f"{name}={quote(value)}" for name, value in given if facet == "tag" or name != facet]
        for value, count in values.items():
            assert len(listed(alice, "&".join([*kept, f"{facet}={quote(value)}"]))) == count


def test_facets_count_only_sessions_of_the_project(charlie: Agent, runs: dict[str, str]) -> None:
    assert facets(charlie)["total"] == {"": 0}
    assert facets(charlie)["agent"] == {}


def test_the_folder_of_a_run_follows_its_metadata(alice: Agent, runs: dict[str, str]) -> None:
    path = f"/sessions/{runs['a']}"
    assert alice.get(path)["folder"] == "/srv/app"
    fork = alice.post(f"{path}/forks", {"title": "f"})
    assert fork["folder"] == "/srv/app"
    assert alice.patch(path, {"metadata": {"folder": "/elsewhere"}})["folder"] == "/elsewhere"
    assert listed(alice, "folder=/elsewhere") == "a"


def test_the_list_can_be_sorted_by_score(alice: Agent, runs: dict[str, str]) -> None:
    for title, score in (("a", 0.25), ("b", 0.5)):
        assert alice.patch(f"/sessions/{runs[title]}", {"score": score}).status == 200
    for sort, expected in (("score", "ab"), ("-score", "ba")):
        page = alice.get(f"/sessions?sort={sort}&limit=1&status=all")
        following = alice.get(f"/sessions?sort={sort}&limit=100&status=all&cursor={page['next']}")
        items = [*page["items"], *following["items"]]
        assert "".join(item["title"] for item in items[:2]) == expected
        assert [item["score"] for item in items[2:]] == [None] * (len(runs) - 2)
