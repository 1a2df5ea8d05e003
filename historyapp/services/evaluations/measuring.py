"""Measures the contexts that policies would have chosen before some steps of a recorded session.

Nothing is called and nothing is stored. The session is read as of one head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from historyapp.core.budget import RequestMeter, meter_for
from historyapp.core.entries import Entry, ModelInput, text_of
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.errors import Invalid
from historyapp.core.evaluation.costs import cached_tokens, input_cost
from historyapp.core.evaluation.figures import Choice, StepFigures
from historyapp.core.evaluation.measure import ChosenContext, TokenCounts, measure
from historyapp.core.evaluation.targets import FIRST_STEP, NeededIdentifier, measured_steps, targets
from historyapp.core.policies import policy_named
from historyapp.core.prices import Price
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.sql import live_entries
from historyapp.services.contexts import DEFAULT_FORMAT
from historyapp.services.corrections import correction_of, learned_factor
from historyapp.services.prices import price_list

MAX_READ_STEPS = 1_000
MAX_READ_TOKENS = 1_500_000
"""Steps and tokens from a session's beginning that are read. Later steps are not measured: an identifier's
first appearance must be among what was read."""
MAX_STEPS = 64
"""Steps whose identifiers are looked for in all earlier texts. Of these, 16 are measured."""
MAX_NAMES = 40
"""Identifiers of one step that are looked for."""
_MAX_COUNTS = 20_000  # counts of tokens that are kept
_KINDS = ("model_output", "tool_results", "model_input", "system_instruction", "memory_notebook")


@dataclass(frozen=True, slots=True)
class ReadSession:
    """The live entries of a session, from its beginning."""

    episodes: Sequence[Episode]
    inputs: Sequence[Entry]
    fixed: Sequence[Entry]
    is_whole: bool

    @property
    def limit_note(self) -> str:
        """A sentence that says how much of a long session was read."""
        return f"Only its first {len(self.episodes):,} steps were read."


def read_session(history: History) -> ReadSession:
    """Reads a session as far as evaluations do."""
    entries: list[Entry] = []
    steps = tokens = 0
    is_whole = True
    for entry in live_entries(history.lineage, _KINDS):
        steps += entry.kind == "model_output"
        tokens += entry.tokens
        if steps > MAX_READ_STEPS or (tokens > MAX_READ_TOKENS and entries):
            is_whole = False
            break
        entries.append(entry)
    inputs = [
        one for one in entries if isinstance(one.body, ModelInput) and text_of(one.body.content).strip()
    ]
    fixed = [e for e in entries if e.kind in ("system_instruction", "memory_notebook")]
    return ReadSession(list(group_episodes(entries)), inputs, fixed, is_whole)


class SessionEvaluation:
    """The evaluation of one session, as of a head.

    Args:
        model: the model whose prices and tokens apply; empty: the session's.
    """

    def __init__(self, session: Session, head: int, choices: Sequence[Choice], model: str = "") -> None:
        self.session = session
        self.head = head
        self.choices = choices
        self.model = model or session.model
        self.settings: SessionSettings = load_settings(session.settings)
        self.smallest = 0
        """The largest of the smallest budgets that policies named when they refused one."""

    @cached_property
    def price(self) -> Price | None:
        return price_list().of(self.model) if self.model else None

    @cached_property
    def read(self) -> ReadSession:
        return read_session(History(self.session, self.head))

    @cached_property
    def targets(self) -> dict[int, list[NeededIdentifier]]:
        return targets(self.read, MAX_STEPS, MAX_NAMES)

    @cached_property
    def steps(self) -> list[int]:
        """The numbers of the steps that are measured."""
        return measured_steps(self.targets)

    def measure(self, step: int, keep_alive: Callable[[], object]) -> dict[str, StepFigures]:
        """The figures of all choices before a step, by their keys.

        Args:
            keep_alive: called before each choice.
        """
        now = self._past(step)
        before = self._past(step - 1) if step > FIRST_STEP else None
        figures = {}
        for choice in self.choices:
            keep_alive()
            figures[choice.key] = self._measure(choice, step, now, before)
        return figures

    def _measure(self, choice: Choice, step: int, now: History, before: History | None) -> StepFigures:
        served = self._serve(choice, now)
        if served is None:
            return StepFigures(0.0, 0.0)
        earlier = self._serve(choice, before) if before else None
        measured = measure(self.targets[step], served, earlier, self._counts)
        if self.price is None:
            cached, cost = cached_tokens(measured.repeated), None
        else:
            cached, cost = input_cost(self.price, measured.tokens, measured.repeated)
        return StepFigures(measured.recall, measured.grounded, measured.tokens, cached, cost)

    def _past(self, step: int) -> History:
        """The history directly before a step."""
        return History(self.session, self.read.episodes[step - 1].first_position - 1)

    def _serve(self, choice: Choice, past: History) -> ChosenContext | None:
        """The context that a choice gives; None if the budget is too small for it."""
        settings = self.settings.model_copy(update={"max_tokens": choice.max_tokens})
        try:
            context = policy_named(choice.policy).choose(past, settings, self._meter)
        except Invalid as error:
            self.smallest = max(self.smallest, error.smallest or 0)
            return None
        messages = [item for part in context.parts for item in part.items]
        fixed = context.manifest.tokens - sum(map(self._counts.message, messages))
        return ChosenContext(messages, fixed, (context.system, context.notebook))

    @cached_property
    def _meter(self) -> RequestMeter:
        factor = learned_factor(correction_of(self.session.project_id, self.model))
        meter = meter_for(DEFAULT_FORMAT, self.model, factor)
        return replace(meter, count=lru_cache(_MAX_COUNTS)(meter.count))

    @cached_property
    def _counts(self) -> TokenCounts:
        return TokenCounts(lambda message: self._meter.item_tokens([message]), self._meter.text_tokens)
