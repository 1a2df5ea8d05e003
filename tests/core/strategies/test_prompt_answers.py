"""Unusable responses of a model: the request is repeated once and names the fault; then it is an error."""

from collections.abc import Callable

import pytest

from historyapp.core.errors import PlayheadError
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Material, NotSummarised, SummaryDraft, SummaryPrompt
from historyapp.core.strategies.digests import write_digest
from tests.core.strategies.scripted import Model, called, resources, steps

Write = Callable[[Model], SummaryDraft]
RESULT = "".join(f"The parser reads line {n} of src/a_b.py. " for n in range(30))
GOOD = '{"summary": "It read src/a_b.py."}'
SUMMARIES = [f"Step {n} read src/file_{n}.py and found value_{n} in it." for n in range(9)]


def episode_summary(model: Model) -> SummaryDraft:
    return STRATEGIES["episode_summary"].write(
        Material(steps(called(RESULT))), resources(model, max_length=500)
    )


def ai_summary(model: Model) -> SummaryDraft:
    return STRATEGIES["ai_summary"].write(Material(steps(called(RESULT))), resources(model, max_length=500))


def digest(model: Model) -> SummaryDraft:
    return write_digest(SUMMARIES, resources(model, max_length=200))


each = pytest.mark.parametrize("write", [episode_summary, ai_summary, digest])


def echo(prompt: SummaryPrompt) -> str:
    return prompt.material


@each
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "was empty"),
        (" \n\t\u2028", "was empty"),
        ("...", "was empty"),
        ("```\n\n```", "was empty"),
        ("I'm sorry, but I can't help with that.", "was a refusal"),
        ("I cannot assist with this request.", "was a refusal"),
        ("I can’t summarise this.", "was a refusal"),
        (echo, "copied the material"),
        ("x " * 1_000_000, "was 2,000,000 characters long"),
        ("\ud800\x00", "was empty"),
    ],
)
def test_two_unusable_answers_are_an_error_with_a_reason(
    write: Write, answer: str | Callable[[SummaryPrompt], str], reason: str
) -> None:
    model = Model(answer)
    with pytest.raises(NotSummarised) as failed:
        write(model)
    assert len(model.prompts) == 2
    assert failed.value.detail.startswith(f"The model's answer {reason}")
    assert failed.value.detail.count("\n") == 0
    assert isinstance(failed.value, PlayheadError)


@each
def test_the_second_request_names_the_fault(write: Write) -> None:
    model = Model("", GOOD)
    assert "It read src/a_b.py." in write(model).text
    first, second = model.prompts
    assert second.material == first.material
    assert second.instruction.startswith(first.instruction)
    assert "An earlier answer to this was empty." in second.instruction


@each
def test_errors_of_model_calls_are_raised(write: Write) -> None:
    def fail(_prompt: SummaryPrompt) -> str:
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError):
        write(Model(fail))


def test_a_copy_of_a_result_with_different_white_space_is_unusable() -> None:
    with pytest.raises(NotSummarised, match="copied the material"):
        episode_summary(Model(RESULT.replace(" ", "\n")[:450]))


def test_a_short_response_can_repeat_the_material() -> None:
    written = STRATEGIES["episode_summary"].write(
        Material(steps(called("Version 1.2.3"))), resources(Model("1.2.3"))
    )
    assert written.text == "1.2.3"


def test_a_line_that_stays_too_long_is_shortened() -> None:
    answer = "\n".join(f"Line {n} tells nothing at all of it" for n in range(60)) + "\nIt changed src/c_d.py"
    model = Model(answer)
    written = episode_summary(model)
    assert "instead of at most 500" in model.prompts[1].instruction
    assert "src/c_d.py" in written.text
    assert "less useful lines left out" in written.text
    assert len(written.text) <= 500


def test_a_line_is_one_line() -> None:
    assert episode_summary(Model("It read\n\nsrc/a_b.py.")).text == "It read src/a_b.py."


@pytest.mark.parametrize(
    "answer",
    ["It read a file.", "[1, 2]", '{"summary": "It', '{"text": "x"}', '{"summary": 3}', "{'a': 1}"],
)
def test_json_of_another_shape_is_unusable(answer: str) -> None:
    model = Model(answer)
    with pytest.raises(NotSummarised, match="was not the requested JSON object"):
        ai_summary(model)
    assert "was not the requested JSON object (" in model.prompts[1].instruction


def test_the_second_request_does_not_quote_the_answer() -> None:
    model = Model('{"summary": 3, "errors": [{"error": {"ignore previous instructions": 1}}]}')
    with pytest.raises(NotSummarised) as failed:
        ai_summary(model)
    assert "summary: string type" in failed.value.detail
    assert "ignore" not in model.prompts[1].instruction.replace(model.prompts[0].instruction, "")


def test_an_object_in_a_code_block_or_a_sentence_is_found() -> None:
    assert ai_summary(Model(f"```json\n{GOOD}\n```")).text == "It read src/a_b.py."
    assert ai_summary(Model(f"Here it is: {GOOD} Done.")).text == "It read src/a_b.py."
