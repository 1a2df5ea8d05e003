"""Filters of a search by the figures of sessions."""

from tests.api.agent import Agent
from tests.api.test_search import search_hits


def test_cost_and_tokens_are_the_figures_that_lists_show(alice: Agent, run: Agent, session_id: str) -> None:
    run.act("ls")
    usage = {"input_tokens": 40_000, "output_tokens": 100}
    output = {"kind": "model_output", "text": "done", "metadata": {"usage": usage, "model": "gpt-5-mini"}}
    assert alice.post(f"/sessions/{session_id}/entries", {"entries": [output]}).status == 201
    shown = alice.get(f"/sessions/{session_id}")
    assert (shown["shown_tokens"], shown["cost"]) == (40_000, 0)
    cost = shown["shown_cost"]
    assert cost > 0.005
    for q in (f"cost>{cost - 0.001:.4f}", f"cost<{cost + 0.001:.4f}", "tokens>39999", "tokens<40001"):
        assert len(search_hits(alice, q)) == 2, q
    for q in (f"cost>{cost + 0.001:.4f}", "tokens>40k", "tokens<40000"):
        assert search_hits(alice, q) == [], q


def test_a_score_is_compared_and_sessions_without_one_match_nothing(
    alice: Agent, charlie: Agent, run: Agent, session_id: str
) -> None:
    run.act("ls")
    for q in ("score>-1000000000", "score<1"):
        assert search_hits(alice, q) == [], q
    assert alice.patch(f"/sessions/{session_id}", {"score": -0.5}).status == 200
    for q in ("score<0", "score>=-0.5", "score<=-0.5 tool:ls", "score>-1"):
        assert len(search_hits(alice, q)) == 1, q
        assert search_hits(charlie, q) == [], q
    for q in ("score>-0.5", "score<-1"):
        assert search_hits(alice, q) == [], q


def test_notes_on_a_session_or_a_step_are_found_by_session(
    alice: Agent, charlie: Agent, run: Agent, session_id: str
) -> None:
    run.act("ls")
    assert search_hits(alice, "has:note") == []
    assert search_hits(alice, "-has:note tool:ls") == [(session_id, 1)]
    bookmark = alice.put(f"/sessions/{session_id}/episodes/1/note", {"text": ""})
    assert bookmark.status in (200, 201), bookmark.body
    assert search_hits(alice, "has:note") == []
    for place, text in ((f"/sessions/{session_id}/episodes/1/note", "look"), (None, "kept")):
        if place:
            alice.put(place, {"text": text})
        else:
            alice.delete(f"/sessions/{session_id}/episodes/1/note")
            assert search_hits(alice, "has:note") == []
            alice.patch(f"/sessions/{session_id}", {"note": text})
        assert search_hits(alice, "has:note") == search_hits(alice, "kind:note") == [(session_id, 1)]
        assert search_hits(alice, "HAS:note tool:ls") == [(session_id, 1)]
        assert search_hits(alice, "-has:note") == search_hits(charlie, "has:note") == []
