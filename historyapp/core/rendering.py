"""Episodes as text, exactly as the earlier episodic histories wrote them."""

from collections.abc import Iterable, Iterator

from historyapp.core.conversation import calls_text
from historyapp.core.episodes import Episode
from historyapp.core.json import text_or_json
from historyapp.core.results import further_parts, result_text, returned_text

JUDGED_STEP = "execute_step"
"""The action of a step that was recorded as a whole, with its analysis and its supervision."""


def long_form(episode: Episode) -> str:
    """The step with its reasoning, status and result, over several lines."""
    status = "did_not_finish" if episode.status in ("in_flight", "abandoned") else episode.status
    text = (
        f"Executed `{calls_text(episode.output)}`\n" if episode.action else "Answered\n"
    ) + f'- **Reasoning:** "{episode.output.thoughts_text}"\n- **Status:** `{status}`\n'
    if not episode.action:
        text += f"- **Answer:** {_block(episode.output.text)}"
    elif episode.result:
        result = episode.result
        match result.status:
            case "success":
                text += f"- **Output:** {_block(result_text(result))}"
            case "interrupted_by_human":
                text += f"- **Feedback:** {result.feedback or ''}\n"
            case _:
                details = result.error if result.status == "error" else None
                text += f"- **Reason:** {result.reason or ''}\n"
                text += f"- **Error:** {details.repr}\n" if details else ""
    more = "".join(f"- **{label}:** {_block(content)}\n" for label, content in _further_lines(episode))
    return f"{text.rstrip()}\n{more}" if more else text


def _further_lines(episode: Episode) -> Iterator[tuple[str, str]]:
    """The parts that the earlier histories did not have: further parts of results, remarks, late results."""
    for result in episode.results:
        if result.error and result.status == "error" and len(episode.results) > 1:
            yield "Error", result.error.repr
        yield from further_parts(result)
    yield from (("Overall", text) for text in episode.overall)
    yield from (("Late result", returned_text(result)) for result in episode.late)


def _block(text: str) -> str:
    return "\n    " + text.replace("\n", "\n    ") if "\n" in text else text


def detailed_form(episode: Episode) -> str:
    """A reviewed step as analysis, execution and supervision; any other step in its long form."""
    review = episode.reviews[-1] if episode.reviews else None
    action, result = episode.action, episode.result
    if review is None or result is None or action is None or action.name != JUDGED_STEP:
        return long_form(episode)
    texts = {"Analysis": review.analysis, "Execution": result.outputs, "Supervision": review.supervision}
    return "\n" + "\n".join(f"- **{name}:** {_block(text_or_json(text))}" for name, text in texts.items())


def short_form(episode: Episode) -> str:
    """The step in one sentence."""
    if not episode.action:
        return f"Answered: {episode.output.text}"
    executed = f"Executed `{calls_text(episode.output)}`"
    return f"{executed}: {result_text(episode.result)}" if episode.result else f"{executed}."


def as_list(episodes: Iterable[Episode]) -> str:
    """Short forms, numbered by step, one a line."""
    return "\n".join(f"{episode.number}. {short_form(episode)}" for episode in episodes)


def as_paragraphs(episodes: Iterable[Episode]) -> str:
    """Long forms under a heading each, joined by blank lines."""
    return "\n\n".join(f"### Step {episode.number}: {long_form(episode)}\n" for episode in episodes)
