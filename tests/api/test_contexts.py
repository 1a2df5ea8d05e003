"""The history as text and as messages."""

import pytest

from historyapp.api import contexts
from tests.api.agent import Agent, ask
from tests.api.test_problems import assert_problem


@pytest.fixture
def three(run: Agent) -> Agent:
    run.append(ask("find it"))
    run.step("ls", ["a"])
    run.act("cat", path="a")
    run.fail("no such file")
    run.step("grep", "line 1\nline 2")
    return run


def text(run: Agent, query: str) -> str:
    response = run.get(f"/progress{query}")
    assert response.status == 200, response.body
    return str(response["text"])


def test_the_default_style_is_a_list(three: Agent) -> None:
    assert text(three, "") == text(three, "?style=list")
    assert text(three, "").splitlines()[:2] == [
        "1. Executed `ls()`: ['a']",
        "2. Executed `cat(path='a')`: Action failed: 'no such file'",
    ]


def test_a_text_can_contain_only_a_slice(three: Agent) -> None:
    assert text(three, "?from=2&to=2") == "2. Executed `cat(path='a')`: Action failed: 'no such file'"
    assert text(three, "?style=paragraph&from=-2&to=-2").startswith("### Step 2: Executed `cat(path='a')`")


def test_an_empty_history_is_an_empty_text(run: Agent) -> None:
    assert [text(run, f"?style={style}") for style in ("list", "paragraph", "compiled")] == ["", "", ""]
    assert run.get("/messages")["messages"] == []


def test_compiled_progress_keeps_to_its_budget(three: Agent) -> None:
    assert [line[:8] for line in text(three, "?style=compiled").split("\n\n")] == [
        "* Step 1", "* Step 2", "* Step 3",
    ]  # fmt: skip
    assert text(three, "?style=compiled&max_tokens=60").startswith("* Step 3")
    assert text(three, "?style=compiled&max_tokens=0") == ""


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("style=prose", "query.style"),
        ("max_tokens=5", "has no budget"),
        ("style=compiled&from=1", "selects the steps itself"),
        ("style=compiled&max_tokens=-1", "query.max_tokens"),
        ("from=9", "There is no step 9"),
    ],
)
def test_an_invalid_progress_request_is_refused(three: Agent, query: str, words: str) -> None:
    assert_problem(three.get(f"/progress?{query}"), 422, words)


def test_the_number_of_steps_in_a_text_is_limited(three: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_STEPS", 2)
    assert_problem(
        three.get("/progress"), 422, "have 3 steps; at most 2", "Narrow the range with from and to"
    )
    assert text(three, "?from=2").startswith("2. ")


def test_text_is_as_of_a_position(three: Agent) -> None:
    assert text(three, "?as_of=2") == "1. Executed `ls()`."
    assert text(three, "?style=compiled&as_of=3").startswith("* Step 1")
    assert text(three, "?as_of=1") == ""


def test_messages_have_a_manifest(three: Agent) -> None:
    context = three.get("/messages")
    assert [message["role"] for message in context["messages"]] == [
        "assistant", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert context["manifest"]["policy"] == "episodic"
    assert context["manifest"]["max_tokens"] == 1024
    segments = context["manifest"]["segments"]
    assert [segment["step"] for segment in segments if segment["source"] == "step"] == [1, 2, 3]
    assert context["manifest"]["tokens"] == sum(segment["tokens"] for segment in segments)


def test_older_steps_become_one_progress_message(three: Agent) -> None:
    three.patch("", {"settings": {"full_message_count": 1}})
    three.post("/summaries", {"from_step": 1, "to_step": 1, "text": "found a"})
    context = three.get("/messages")
    assert [message["role"] for message in context["messages"]] == ["system", "assistant", "user"]
    assert "* Step 1: found a\n\n* Step 2: Executed" in context["messages"][0]["content"]


def test_messages_fit_a_budget_and_list_left_out_steps(three: Agent) -> None:
    three.patch("", {"settings": {"full_message_count": 0}})
    context = three.get("/messages?max_tokens=120")
    assert context["manifest"]["max_tokens"] == 120
    assert context["manifest"]["tokens"] <= 120
    left = context["manifest"]["left_out"]
    assert [out["last_step"] for out in left if out["last_step"]] == [2]


def test_messages_are_as_of_a_position(three: Agent) -> None:
    (message,) = three.get("/messages?as_of=2")["messages"]
    assert message["role"] == "assistant"
