"""One line for each step, written by the model (SEMANTICS A, "Compression instruction")."""

from dataclasses import replace

from historyapp.core.episodes import Episode
from historyapp.core.quoting import DATA_NOTE
from historyapp.core.strategies.asking import ask_twice, plain_answer
from historyapp.core.strategies.base import Material, Means, Prompt, Strategy, Written
from historyapp.core.strategies.composing import composed
from historyapp.core.strategies.said import words_of
from historyapp.core.strategies.simple_extract import extracted
from historyapp.core.strategies.telling import told_steps

LONGEST_LINE = 1_000
"""Characters of one step's line."""
_OUTPUT = 2_000  # tokens; models that think first spend most of them on it

INSTRUCTION = (
    "Summarise one step of an AI agent's work in one line of at most 60 words: what it did and what came "
    "of it. Keep the specific facts that the action gathered: paths, names, numbers, versions, URLs, error "
    "messages, exactly as they are written. Say whether it succeeded. Write in the third person and the "
    "past tense, without a heading or a list. Answer with the line only.\n\n" + DATA_NOTE
)


def write(material: Material, means: Means) -> Written:
    """A line for each step; by extraction where there is no model."""
    words = words_of(material)
    if means.ask is None:
        return composed(words, means.max_length, extracted(material.episodes, means))
    lines = [_line(episode, material, means) for episode in material.episodes]
    if len(lines) > 1:
        steps = zip(material.episodes, lines, strict=True)
        lines = [f"Step {episode.number}: {line}" for episode, line in steps]
    return composed(words, means.max_length, "\n".join(lines))


def _line(episode: Episode, material: Material, means: Means) -> str:
    told = told_steps(replace(material, episodes=(episode,)), means, INSTRUCTION)
    prompt = Prompt(INSTRUCTION, told, _OUTPUT)
    longest = max(40, min(LONGEST_LINE, means.max_length))
    return " ".join(ask_twice(prompt, means, lambda answer: plain_answer(answer, told, longest)).split())


EPISODE_SUMMARY = Strategy(
    name="episode_summary",
    title="A line for each step",
    description=(
        "The model tells each step in one line that keeps the facts which it gathered: one short request for "
        "each step. Without a model, an extract."
    ),
    covers="step",
    asks_model=True,
    write=write,
    instruction_tokens=170,
    answer_tokens=60,
)
