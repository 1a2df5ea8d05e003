"""Carrying out a run: claiming items, having them summarised side by side, storing what comes.

A worker may die at any moment. What it had claimed is taken up by others once its claims run out; what it
had stored stays. So nothing is paid for twice but what was under way.
"""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from uuid_utils.compat import uuid7

from historyapp.core.errors import Invalid, PlayheadError
from historyapp.core.language import load_language
from historyapp.core.settings import load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Material, Means, Strategy, Written
from historyapp.core.strategies.digests import write_digest
from historyapp.core.tokens import count_tokens
from historyapp.llm.errors import KeyRefused, LimitReached, ProviderUnreachable, RequestRefused, TimedOut
from historyapp.models import CompressionItem, CompressionRun
from historyapp.services.compression.asking import Questions
from historyapp.services.compression.claims import Outcome, Spent, claim, release, renew, store
from historyapp.services.compression.finishing import add_note, break_off, finish
from historyapp.services.compression.material import materials, parts_of
from historyapp.services.compression.planning import plan

log = logging.getLogger(__name__)

WITHOUT_MODEL = 50
"""Items done in one go where no model is asked: storing each by itself would cost more than making it."""
REST = 2
"""For each second of writing so many go by before the next."""
BUSY_REST = 1.0
"""Seconds between two writings while an agent is at work on the session: agents write too, and go first."""
LOOK = 1.0
"""Seconds after which a worker looks at the latest whether its run has been cancelled."""

Result = TypeVar("Result")
Job = tuple[CompressionItem, Material | list[str]]
"""An item and what it is made of: steps, or the summaries of a digest."""


def work_on(run_id: UUID, stopping: Callable[[], bool] = lambda: False) -> None:
    """Works on a run until nothing of it is left to be begun.

    Args:
        stopping: whether the worker is to end: nothing more is begun then.
    """
    try:
        if plan(run_id):
            with suppress(CompressionRun.DoesNotExist):  # purged with its session meanwhile
                asyncio.run(_Worker(run_id, stopping).work())
    except (DatabaseError, InterfaceError):
        raise  # the sweep takes the run up again
    except Exception as error:
        if stopping():
            raise
        log.exception("The run %s is broken off", run_id)
        break_off(run_id, f"An unexpected {type(error).__name__} broke it off: the worker's log has more.")


@functools.cache
def _threads(provider: str) -> ThreadPoolExecutor:
    """For all runs of this process: so many calls of a provider are under way at once, and no more.

    Each provider has threads of its own, and so has what asks none: a silent one holds up no other.
    """
    return ThreadPoolExecutor(settings.PLAYHEAD_CONCURRENCY, thread_name_prefix=f"summarise {provider}")


class _Worker:
    """One task's share of a run. The database is spoken to from a thread of its own."""

    def __init__(self, run_id: UUID, stopping: Callable[[], bool]) -> None:
        self._run_id, self._stopping = run_id, stopping
        self._owner: UUID = uuid7()
        self._database = ThreadPoolExecutor(1, thread_name_prefix="compression")
        self._claimed: deque[Job] = deque()
        """Ours, and not begun."""
        self._under_way: set[asyncio.Future[list[Outcome]]] = set()
        self._head, self._busy = 0, True
        """The session's head when something was last stored, and whether it had grown by then."""
        self._ended = False
        """Whether the run had ended when it was last looked at: it is cancelled, or others have done all."""
        self._finished: list[Outcome] = []
        """Not stored yet."""
        self._next_write = 0.0
        """By the loop's clock: what is ready before then waits, for agents to write."""
        self._dry = False
        """Whether there was less to claim than wanted: the rest is with others."""
        self._lease = settings.PLAYHEAD_CLAIM_SECONDS / 3
        self._renewal = 0.0
        """When the claims are to be renewed, by the loop's clock."""

    async def work(self) -> None:
        try:
            run, summariser = await self._stored(_prepare, self._run_id)
            while await self._round(run, summariser):
                pass
        finally:
            await self._stored(release, self._owner)
            await self._stored(connections.close_all)
            self._database.shutdown()

    async def _round(self, run: CompressionRun, summariser: "_Summariser") -> bool:
        """Begins what there is room for and takes what is ready; False when nothing is left."""
        clock = asyncio.get_running_loop().time
        self._begin(summariser)
        if not self._under_way:
            await asyncio.sleep(self._next_write - clock())
        many = summariser.asks_model and len(self._finished) >= summariser.at_once
        if many or clock() >= self._next_write:  # what is paid for does not wait long
            begun = clock()
            await self._write_down(run, summariser)
            self._next_write = clock() + (BUSY_REST if self._busy else REST * (clock() - begun))
        self._begin(summariser)
        if not self._under_way:
            return await self._stored(finish, self._run_id) and not self._stopping()
        pause = self._next_write - clock() if self._finished else LOOK
        ready, _ = await asyncio.wait(
            self._under_way, timeout=max(0, min(pause, self._lease)), return_when=asyncio.FIRST_COMPLETED
        )
        self._under_way -= ready
        self._finished += [outcome for future in ready for outcome in future.result()]
        self._ended = await self._stored(_has_ended, self._run_id)
        if self._ended:
            self._claimed.clear()  # they are given back in the end
        return True

    async def _write_down(self, run: CompressionRun, summariser: "_Summariser") -> None:
        """Stores what has come, claims more, and says that the claims are still ours."""
        if self._finished:
            outcomes, self._finished = self._finished, []
            if any(outcome.hopeless or outcome.silent for outcome in outcomes):
                await self._give_back()
            head = await self._stored(store, self._run_id, self._owner, outcomes)
            self._busy, self._head = head != self._head, head
        await self._claim_more(run, summariser)
        now = asyncio.get_running_loop().time()
        if now >= self._renewal:
            await self._stored(renew, self._owner)
            self._renewal = now + self._lease

    async def _claim_more(self, run: CompressionRun, summariser: "_Summariser") -> None:
        """Keeps as many items in hand as are under way, so that nothing waits for the database."""
        wanted = summariser.at_once * summariser.together
        if self._stopping() or len(self._claimed) > wanted / 2 or (self._dry and self._under_way):
            return
        missing = 2 * wanted - len(self._claimed)
        found = await self._stored(_claim, run, self._owner, missing)
        self._claimed += found
        self._dry = len(found) < missing
        self._ended = self._ended and not found  # a cancelled run may be taken up again

    async def _give_back(self) -> None:
        """What has not been begun is nobody's again: it may be given up, or looked at when it is claimed."""
        items = [item.pk for item, _ in self._claimed]
        self._claimed.clear()
        await self._stored(release, self._owner, items)

    def _begin(self, summariser: "_Summariser") -> None:
        while self._claimed and len(self._under_way) < summariser.at_once and not self._stopping():
            jobs = [self._claimed.popleft() for _ in range(min(summariser.together, len(self._claimed)))]
            threads = _threads(summariser.provider)
            work: Future[list[Outcome]] = threads.submit(self._write, summariser, jobs)
            self._under_way.add(asyncio.wrap_future(work))

    def _write(self, summariser: "_Summariser", jobs: Sequence[Job]) -> list[Outcome]:
        """What becomes of the jobs; nothing where they had to wait for a thread until nobody wants them."""
        return [] if self._ended or self._stopping() else summariser.write(jobs)

    async def _stored(self, function: Callable[..., Result], *arguments: Any) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._database, functools.partial(function, *arguments))


def _has_ended(run_id: UUID) -> bool:
    return not CompressionRun.objects.active().filter(pk=run_id).exists()


def _claim(run: CompressionRun, owner: UUID, most: int) -> list[Job]:
    items = claim(run.pk, owner, most)
    steps = [item for item in items if not item.parts]
    jobs: list[Job] = list(zip(steps, materials(run, steps), strict=True))
    return [*jobs, *((item, parts_of(item)) for item in items if item.parts)]


def _prepare(run_id: UUID) -> tuple[CompressionRun, "_Summariser"]:
    run = CompressionRun.objects.select_related("session").get(pk=run_id)
    chosen = load_settings(run.session.settings)
    language, note = load_language(chosen.spacy_language_model)
    strategy = STRATEGIES[run.strategy]
    if note and run.model in ("", "local"):
        add_note(run_id, note)
    means = Means(
        language,
        window=settings.PLAYHEAD_MODEL_WINDOW,
        max_length=chosen.max_summary_length,
        options=strategy.options.model_validate(run.options),
    )
    return run, _Summariser(strategy, run.model, means)


class _Summariser:
    """What becomes of items, whatever happens to each."""

    def __init__(self, strategy: Strategy, model: str, means: Means) -> None:
        self._strategy, self._model, self._means = strategy, model, means
        self.asks_model = model not in ("", "local")
        self.provider = model.partition(":")[0] if self.asks_model else ""
        self.at_once = settings.PLAYHEAD_CONCURRENCY if self.asks_model else 1
        """Pieces of work under way."""
        self.together = 1 if self.asks_model else WITHOUT_MODEL
        """Items in one piece of work."""
        self._logged: set[object] = set()

    def write(self, jobs: Sequence[Job]) -> list[Outcome]:
        return [self._write(item, source) for item, source in jobs]

    def _write(self, item: CompressionItem, source: Material | list[str]) -> Outcome:
        questions: Questions | None = None
        try:
            questions = Questions(self._model) if self.asks_model else None
            means = replace(self._means, ask=questions.ask if questions else None)
            written = self._words(source, means)
            return Outcome(item.pk, written, tokens=count_tokens(written.text), spent=_spent(questions))
        except PlayheadError as error:
            self._log_once(item, error)
            return Outcome(
                item.pk,
                error=error.detail,
                spent=_spent(questions),
                hopeless=_is_hopeless(error),
                silent=isinstance(error, (ProviderUnreachable, TimedOut)),
            )
        except Exception as error:  # one step's oddity must not cost the others their summaries
            log.exception("Item %s of the run %s failed", item.number, item.run_id)
            sentence = f"An unexpected {type(error).__name__}: the worker's log has more."
            return Outcome(item.pk, error=sentence, spent=_spent(questions))

    def _log_once(self, item: CompressionItem, error: PlayheadError) -> None:
        """When a provider is away, every item fails for the same reason: one line says so for all."""
        reason = (type(error), getattr(error, "words", "") or getattr(error, "status", None))
        if reason not in self._logged:
            self._logged.add(reason)
            log.warning("Item %s of the run %s failed: %s", item.number, item.run_id, error.detail)

    def _words(self, source: Material | list[str], means: Means) -> Written:
        if isinstance(source, Material):
            return self._strategy.write(source, means)
        # Half of the room is for the summaries to come: else the next one would have it digested again.
        return write_digest(source, replace(means, max_length=max(1, means.max_length // 2)))


def _spent(questions: Questions | None) -> Spent:
    return questions.spent if questions else Spent()


def _is_hopeless(error: PlayheadError) -> bool:
    """Whether every other call would fail like this one."""
    if isinstance(error, RequestRefused):
        return error.provider_status == 404
    if isinstance(error, LimitReached):
        return not error.retryable
    return isinstance(error, (KeyRefused, Invalid))
