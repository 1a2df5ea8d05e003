"""Measures the contexts that policies would have chosen before some steps of a recorded session.

It calls no model and stores nothing. The session is read as of one head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from django.utils.functional import cached_property

from historyapp.core.budget import RequestMeter, meter_for
from historyapp.core.entries import Entry, text_of
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.errors import Invalid
from historyapp.core.evaluation.costs import cached_tokens, input_cost
from historyapp.core.evaluation.figures import Choice, StepFigures
from historyapp.core.evaluation.measure import ChosenContext, TokenCounts, measure
from historyapp.core.evaluation.reading import texts_only
from historyapp.core.evaluation.targets import FIRST_STEP, NeededIdentifier, measured_steps, targets
from historyapp.core.policies import policy_named
from historyapp.core.prices import Price
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.tokens import cached_counter
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.long_rows import MAX_READ
from historyapp.models.own_rows import live_rows
from historyapp.services.contexts import DEFAULT_FORMAT
from historyapp.services.corrections import correction_of, learned_factor
from historyapp.services.prices import price_list

MAX_READ_STEPS = 1_000
MAX_READ_TOKENS = 1_500_000
"""The maximum number of steps and tokens that are read, from the session's beginning. Later steps are not
measured, because the first appearance of an identifier must have been read."""
MAX_READ_TEXTS = 1 << 24
"""The same for the bytes that the texts take in memory: four for each character of a text with an emoji. Text
of usual length has at most ten characters for each token."""
MAX_READ_BYTES = MAX_READ
"""The same for bytes of entries, with raw messages and images, which count few tokens. A context may be built
from all of them."""
MAX_STEPS = 64
"""The maximum number of steps whose identifiers are searched for in all earlier texts. 16 of them are
measured."""
MAX_NAMES = 40
"""The maximum number of identifiers of one step that are searched for."""
_MAX_CACHED_COUNTS = 20_000
"""The maximum number of texts whose token counts are cached."""
_KINDS = ("model_output", "tool_results", "model_input", "system_instruction", "memory_notebook")


@dataclass(frozen=True, slots=True)
class ReadSession:
    """The live entries of a session, from its beginning."""

    episodes: Sequence[Episode]
    inputs: Sequence[Entry]
    fixed: Sequence[Entry]
    is_whole: bool


def read_session(history: History, keep_alive: Callable[[], object]) -> ReadSession:
    """Reads a session up to the limits of evaluations. One entry at a time is in memory with more than its
    texts.

    Args:
        keep_alive: called for each entry.
    """
    entries: list[Entry] = []
    steps = tokens = texts = size = 0
    is_whole = True
    for row in live_rows(history.lineage):
        keep_alive()
        size += row.size
        if row.kind not in _KINDS:
            continue
        body, memory = texts_only(row.core().body)
        steps += row.kind == "model_output"
        tokens += row.tokens
        texts += memory
        is_too_long = tokens > MAX_READ_TOKENS or texts > MAX_READ_TEXTS or size > MAX_READ_BYTES
        if steps > MAX_READ_STEPS or (is_too_long and entries):
            is_whole = False
            break
        if row.kind != "model_input" or text_of(body.message_content).strip():
            entries.append(Entry(row.position, body, row.created_at))
    inputs = [entry for entry in entries if entry.kind == "model_input"]
    fixed = [entry for entry in entries if entry.kind in ("system_instruction", "memory_notebook")]
    return ReadSession(list(group_episodes(entries)), inputs, fixed, is_whole)


class SessionEvaluation:
    """The evaluation of one session, as of a head.

    Args:
        model: the model whose prices and tokens apply; empty: the session's.
        keep_alive: called between pieces of work that take at most seconds. It may raise an exception to end
            the evaluation.
    """

    def __init__(
        self,
        session: Session,
        head: int,
        choices: Sequence[Choice],
        *,
        model: str = "",
        keep_alive: Callable[[], object] = lambda: None,
    ) -> None:
        self.session = session
        self.head = head
        self.choices = choices
        self.model = model or session.model
        self.keep_alive = keep_alive
        self.settings: SessionSettings = load_settings(session.settings)
        self.smallest = 0
        """The largest of the smallest possible budgets, as policies report them when they refuse a budget."""

    @cached_property
    def price(self) -> Price | None:
        return price_list().of(self.model) if self.model else None

    @cached_property
    def read(self) -> ReadSession:
        return read_session(History(self.session, self.head), self.keep_alive)

    @cached_property
    def targets(self) -> dict[int, list[NeededIdentifier]]:
        return targets(self.read, MAX_STEPS, MAX_NAMES, self.keep_alive)

    @cached_property
    def steps(self) -> list[int]:
        """The numbers of the steps that are measured."""
        return measured_steps(self.targets)

    def measure(self, step: int) -> dict[str, StepFigures]:
        """The figures of all choices before a step, by their keys."""
        past = self._past(step)
        earlier_past = self._past(step - 1) if step > FIRST_STEP else None
        return {choice.key: self._measure(choice, step, past, earlier_past) for choice in self.choices}

    def _measure(self, choice: Choice, step: int, past: History, earlier_past: History | None) -> StepFigures:
        context = self._chosen_context(choice, past)
        if context is None:
            return StepFigures(0.0, 0.0)
        earlier_context = self._chosen_context(choice, earlier_past) if earlier_past else None
        measured = measure(self.targets[step], context, earlier_context, self._counts)
        if self.price is None:
            cached, cost = cached_tokens(measured.repeated), None
        else:
            cached, cost = input_cost(self.price, measured.tokens, measured.repeated)
        return StepFigures(measured.recall, measured.grounded, measured.tokens, cached, cost)

    def _past(self, step: int) -> History:
        """The history directly before a step."""
        return History(self.session, self.read.episodes[step - 1].first_position - 1)

    def _chosen_context(self, choice: Choice, past: History) -> ChosenContext | None:
        """The context of a policy with a budget; None if the budget is too small."""
        self.keep_alive()
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
        return replace(meter, count=cached_counter(meter.count, _MAX_CACHED_COUNTS))

    @cached_property
    def _counts(self) -> TokenCounts:
        return TokenCounts(lambda message: self._meter.item_tokens([message]), self._meter.text_tokens)
