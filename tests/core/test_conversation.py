import pytest
from hypothesis import given

from historyapp.core.conversation import ANSWERED_TOGETHER, NO_RESULT, InputMessage, Turn, output_text
from historyapp.core.entries import (
    Body,
    DebugLog,
    Entry,
    ErrorDetails,
    ModelInput,
    ModelOutput,
    Thoughts,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.episodes import conversation_parts
from historyapp.core.formats.calls import CallIds, legal_name
from historyapp.core.results import NO_OUTPUT, reported_text, returned_text
from historyapp.core.text import fenced
from tests.core.entries import LIVE, TEXT, calls, result, session

ASKS = ModelInput(content="hi")
ACTS = ModelOutput(use_tool=UseTool(name="ls", arguments={"at": "."}))


def shape(*bodies: Body) -> list[str]:
    """Turns with the results of their calls and other results, and asides, each as one word."""
    words = []
    for item in conversation_parts(session(*bodies)):
        if isinstance(item, Turn):
            results = [str(result.outputs or result.reason) for result in item.results]
            words.append(" ".join(["turn", *results, *(f"+{len(item.remarks)}" for _ in item.remarks[:1])]))
        else:
            words.append(item.channel)
    return words


def test_results_in_any_order_and_number_go_to_their_calls() -> None:
    assert shape(ASKS, calls("a", "b"), result("b", "2"), result("a", "1")) == ["user", "turn 1 2"]


def test_inputs_between_a_call_and_its_result_are_moved_after_them() -> None:
    assert shape(calls("a"), ASKS, result("a", "1"), ASKS) == ["turn 1", "user", "user"]


@pytest.mark.parametrize("next_body", [[], [ModelOutput(text="x")]])
def test_an_unanswered_call_gets_a_truthful_result(next_body: list[Body]) -> None:
    assert shape(calls("a", "b"), result("a", "1"), *next_body)[0] == f"turn 1 {NO_RESULT}"
    assert shape(ACTS, *next_body)[0] == f"turn {NO_RESULT}"


def test_a_result_without_an_id_answers_all_open_calls_and_is_shown_once() -> None:
    together = ANSWERED_TOGETHER.format("a")
    assert shape(calls("a", "b", "c"), result("b", "2"), result(None, "all")) == [f"turn all 2 {together}"]
    assert shape(calls("a", "b"), result("a", "1"), result(None, "rest")) == ["turn 1 rest"]
    assert shape(ACTS, result(None, "1")) == ["turn 1"]


def test_parallel_results_without_ids_keep_the_order_of_their_calls() -> None:
    def several(*texts: str) -> ToolResults:
        return ToolResults(results=tuple(ToolResult(status="success", outputs=text) for text in texts))

    assert shape(calls("a", "b"), several("1", "2")) == ["turn 1 2"]
    assert shape(calls("a", "b", "c"), several("1", "2")) == [f"turn 1 2 {ANSWERED_TOGETHER.format('b')}"]
    assert shape(calls("a", "b"), several("1", "2", "3")) == ["turn 1 2 +1"]
    mixed = several("1", "2").results
    named = mixed[0].model_copy(update={"tool_call_id": "b"})
    assert shape(calls("a", "b", "c"), ToolResults(results=(named, *mixed[1:]))) == [
        f"turn 2 1 {ANSWERED_TOGETHER.format('a')}"
    ]


def test_a_result_that_answers_no_call_is_separate() -> None:
    """It is shown at the step during which it arrived. A repeated result is shown once."""
    early, turn = conversation_parts(
        session(result("a", "early"), calls("a"), result("x"), *[result("a", "1")] * 2)
    )
    assert isinstance(early, InputMessage)
    assert early.channel == "tool"
    assert "early" in early.content
    assert isinstance(turn, Turn)
    assert [r.outputs for r in turn.results] == ["1"]
    assert len(turn.remarks) == 1
    assert turn.remarks[0].startswith("A result for the call x that came late")


def test_a_result_with_the_id_of_another_call_is_not_the_result_of_an_action_in_words() -> None:
    assert shape(calls("a"), ACTS, result("a", "1"), result(None, "2")) == [f"turn {NO_RESULT}", "turn 2 +1"]


def test_an_answer_has_no_open_call() -> None:
    assert shape(ModelOutput(text="x"), result(None), ASKS) == ["turn +1", "user"]


def test_remarks_on_all_results_follow_them() -> None:
    remarked = result("a", "1").model_copy(update={"overall": "fine"})
    [turn] = conversation_parts(session(calls("a"), remarked))
    assert isinstance(turn, Turn)
    assert turn.remarks == ("Overall: fine",)


def test_logs_are_left_out() -> None:
    assert shape(calls("a"), DebugLog(category="x", message="y"), result("a", "1")) == ["turn 1"]


@given(LIVE)
def test_every_output_is_a_turn_once_with_a_result_for_each_call(entries: list[Entry]) -> None:
    parts = list(conversation_parts(entries))
    outputs = [entry.body for entry in entries if isinstance(entry.body, ModelOutput)]
    turns = [item for item in parts if isinstance(item, Turn)]
    assert [turn.output for turn in turns] == outputs
    for turn in turns:
        assert len(turn.results) == (len(turn.output.tool_calls) or bool(turn.output.use_tool))
    inputs = [entry.body.content for entry in entries if isinstance(entry.body, ModelInput)]
    positions = {entry.position for entry in entries if isinstance(entry.body, ModelInput)}
    asides = [item for item in parts if isinstance(item, InputMessage) and item.position in positions]
    assert [aside.content for aside in asides] == inputs


def test_illegal_ids_are_replaced_by_ids_that_depend_only_on_the_position() -> None:
    ids = CallIds(10)
    given_ids = ["a", "a", "ä", "", "x" * 11, "call_7_1"]
    assert [ids.of(7, id) for id in given_ids] == [
        "a", "call_7_1", "call_7_2", "call_7_3", "call_7_4", "call_7_5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "legal"), [("ls", "ls"), ("a.b c", "a_b_c"), ("", "tool"), ("x" * 99, "x" * 64)]
)
def test_a_tool_name_is_made_legal(name: str, legal: str) -> None:
    assert legal_name(name) == legal


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (ModelOutput(text="x", thoughts="hm"), "x"),
        (ModelOutput(thoughts="hm"), "hm"),
        (ModelOutput(thoughts=Thoughts(summary="hm")), "hm"),
        (ModelOutput(thoughts="hm", reasoning=[{"type": "thinking"}]), ""),
        (calls("a", thoughts="hm"), ""),
        (ACTS.model_copy(update={"thoughts": "hm"}), "hm\n\nls(at='.')"),
        (ACTS.model_copy(update={"raw_message": {"content": "```ls```"}}), "```ls```"),
        (ACTS.model_copy(update={"raw_message": {"content": None}}), "ls(at='.')"),
    ],
)
def test_the_text_of_an_output_is_what_the_model_wrote(output: ModelOutput, expected: str) -> None:
    assert output_text(output) == expected


ERROR = ErrorDetails(message="m", exception_type="E", repr="E('m')")


@pytest.mark.parametrize(
    ("given_result", "expected"),
    [
        (ToolResult(status="success", outputs="x"), "x"),
        (ToolResult(status="success", outputs={"a": 1}), '{"a":1}'),
        (ToolResult(status="success", outputs=[1, "x"]), '[1,"x"]'),
        (ToolResult(status="success"), NO_OUTPUT),
        (ToolResult(status="success", outputs=" \n"), NO_OUTPUT),
        (ToolResult(status="error", reason="no"), "no"),
        (ToolResult(status="error"), NO_OUTPUT),
        (ToolResult(status="interrupted_by_human", feedback="wait"), "wait"),
        (ToolResult(status="skipped", reason="late"), "late"),
    ],
)
def test_the_text_of_a_result_has_its_outputs(given_result: ToolResult, expected: str) -> None:
    assert expected in returned_text(given_result)


def test_the_text_of_an_error_has_its_details() -> None:
    assert "E('m')" in returned_text(ToolResult(status="error", reason="no", error=ERROR))


def test_a_result_of_an_action_written_as_text_is_named_unless_the_agent_words_its_own() -> None:
    [plain, lines] = [ToolResult(status="success", outputs=outputs) for outputs in ("x", "a\nb")]
    assert reported_text(plain, ACTS) == "ls returned: `x`"
    assert reported_text(lines, ACTS) == "ls returned: ```\na\nb\n```"
    assert reported_text(ToolResult(status="error", reason="no"), ACTS) == "ls raised an error: ```\nno\n```"
    assert reported_text(plain, ACTS.model_copy(update={"raw_message": {"content": "ls"}})) == "x"
    assert reported_text(ToolResult(tool_name="cat", status="success", outputs="x")) == "cat returned: `x`"


@given(TEXT)
def test_no_text_can_close_its_own_fence(text: str) -> None:
    shown = text + "\n````\n" + text
    fence, *_, last = fenced(shown).split("\n")
    assert fence == last
    assert fence not in shown
