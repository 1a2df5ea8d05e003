"""One line for each step, which the model writes: it keeps the specific facts that the action gathered."""

from dataclasses import replace

from historyapp.core.episodes import Episode
from historyapp.core.quoting import DATA_NOTE
from historyapp.core.strategies.base import Material, Resources, Strategy, SummaryDraft, SummaryPrompt
from historyapp.core.strategies.prompts import complete_checked, plain_answer, quote_steps
from historyapp.core.strategies.simple_extract import extract_steps
from historyapp.core.strategies.user_words import compose_summary, user_words

MAX_LINE = 1_000
"""The maximum length of a step's line, in characters."""
_OUTPUT = 2_000  # tokens; reasoning models spend most of them on their reasoning

INSTRUCTION = (
    "Summarise one step of an AI agent's work in one line of at most 60 words: what it did and what came "
    "of it. Keep the specific facts that the action gathered: paths, names, numbers, versions, URLs, error "
    "messages, exactly as they are written. Say whether it succeeded. Write in the third person and the "
    "past tense, without a heading or a list. Answer with the line only.\n\n" + DATA_NOTE
)


def write(material: Material, resources: Resources) -> SummaryDraft:
    """A line for each step; an extract if there is no model."""
    words = user_words(material)
    if resources.complete is None:
        return compose_summary(words, resources.max_length, extract_steps(material.episodes, resources))
    lines = [_line(episode, material, resources) for episode in material.episodes]
    if len(lines) > 1:
        steps = zip(material.episodes, lines, strict=True)
        lines = [f"Step {episode.number}: {line}" for episode, line in steps]
    return compose_summary(words, resources.max_length, "\n".join(lines))


def _line(episode: Episode, material: Material, resources: Resources) -> str:
    quoted = quote_steps(replace(material, episodes=(episode,)), resources, INSTRUCTION)
    prompt = SummaryPrompt(INSTRUCTION, quoted, _OUTPUT)
    max_length = max(40, min(MAX_LINE, resources.max_length))
    line = complete_checked(prompt, resources, lambda answer: plain_answer(answer, quoted, max_length))
    return " ".join(line.split())


EPISODE_SUMMARY = Strategy(
    name="episode_summary",
    title="One line per step",
    description=(
        "A model writes one line for each step, with the facts that the step found. Each step takes one "
        "short request. Without a model, Playhead makes an extract."
    ),
    covers="step",
    uses_model=True,
    write=write,
    instruction_tokens=170,
    answer_tokens=60,
)
