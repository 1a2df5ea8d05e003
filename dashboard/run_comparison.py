"""Two runs side by side, as their page shows them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from dashboard.location import Location
from dashboard.rendering.context import Changes, changes
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.models.sessions import SessionQuerySet
from historyapp.models.takes import takes
from historyapp.services.contexts import BuiltContext, RequestedContext, resolve_options
from historyapp.services.prices import price_list
from historyapp.services.run_comparisons import ComparedRun, RunReference
from historyapp.services.snapshots import serve_context
from historyapp.services.step_pairs import AlignedSteps, PairPlace, StepPair

PAGE = 100
"""Pairs on one page."""
FOLDED = 5
"""This many or more equal pairs in a row are folded."""
BEFORE = 3
"""Pairs shown before the first difference if the page begins there."""
CANDIDATES = 20
"""Sessions, takes and forks that are offered for a comparison."""
_SHOWN = ("title", "agent", "steps", "last_entry_at")
MAX_WORDS = 200
"""Characters of the words that find a session."""
_PARTED = ("only_a", "only_b")
"""The changes of two steps without a match, with which two runs part. One row shows both."""


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A row: a pair, and whether it is the first difference or divergence."""

    pair: StepPair
    place: PairPlace
    is_first_divergence: bool = False
    is_first_difference: bool = False
    is_unmatched: bool = False
    """Whether its steps are those with which the runs part, and neither matches a step of the other run."""

    @property
    def inputs(self) -> tuple[str, str]:
        """The beginnings of the inputs before both steps; empty if they are the same."""
        sides = self.pair.a, self.pair.b
        a, b = (side.row.input_preview if side else "" for side in sides)
        return ("", "") if a == b else (a, b)

    @property
    def differs_in_call(self) -> bool:
        """Whether the row shows the previews of both tool calls."""
        return "call" in self.pair.differs

    @property
    def has_diff(self) -> bool:
        """Whether the row offers the diffs of the texts: both steps match, and may differ."""
        return not self.is_unmatched and (self.pair.change == "different" or not self.pair.is_exact)

    @property
    def at(self) -> str:
        """The place of the pair, as addresses name it."""
        return place_parameter(self.place)

    @property
    def names_tools(self) -> bool:
        """Whether the row names the tools: its steps do not match, and the tools may be all that differs."""
        return self.is_unmatched or self.pair.a is None or self.pair.b is None


class PairStretch(NamedTuple):
    """Consecutive rows, folded together or not."""

    rows: list[ComparedPair]
    is_folded: bool


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One run, with the data for its links."""

    run: ComparedRun
    location: Location
    letter: str
    address: str
    """The run as it is compared."""
    role: str = ""
    """``parent`` or ``fork``, if one run is a fork of the other."""


class Candidate(NamedTuple):
    """A run to compare a session with."""

    kind: str
    title: str
    detail: str
    address: str
    when: datetime | None = None
    """The time of its newest entry."""


def comparison_address(a: object, b: object, at: str = "") -> str:
    """The page that compares two runs, from a pair on."""
    query = {"a": str(a), "b": str(b)} | ({"at": at} if at else {})
    return f"{reverse('compare-runs')}?{urlencode(query)}"


def compared_steps_address(a: object, b: object) -> str:
    """The page with the diffs of two steps, without their numbers, ``at``."""
    return f"{reverse('compare-steps')}?{urlencode({'a': str(a), 'b': str(b)})}"


def side_of(run: ComparedRun, letter: str, other: ComparedRun) -> ComparedSide:
    """One run of a comparison with ``other``."""
    location, session = Location(run.history, min(1, run.history.steps)), run.history.session
    role = "fork" if session.forked_from_id == other.history.session.pk else ""
    role = "parent" if other.history.session.forked_from_id == session.pk else role
    return ComparedSide(run, location, letter, f"{location.url}{location.as_of_query}", role)


def stretches(rows: Iterable[ComparedPair]) -> Iterator[PairStretch]:
    """Groups consecutive equal rows, and folds long groups."""
    for is_same, group in groupby(rows, lambda row: row.pair.is_same and not row.is_unmatched):
        group_rows = list(group)
        yield PairStretch(group_rows, is_same and len(group_rows) >= FOLDED)


def first_candidates(project: Project, words: str) -> list[Candidate]:
    """The newest sessions of a project with these words, as run A. The second run is chosen next."""
    page = reverse("compare-runs")
    found = _with_words(_newest(project.pk), words)
    return [_session("Session", one, f"{page}?a={one.pk}") for one in found]


def candidates(session: Session, words: str = "") -> list[Candidate]:
    """Likely candidates for a comparison: the parent, the takes, the forks, and the newest runs.

    The parent and the takes are run A, because they were recorded first; the others are run B.

    Args:
        words: if not empty, only sessions with these words in title, agent or tags.
    """
    session_id = session.pk
    if words:
        found = _with_words(_newest(session.project_id).exclude(pk=session_id), words)
        return [_session("Session", other, comparison_address(session_id, other.pk)) for other in found]
    runs: list[Candidate] = []
    if session.forked_from is not None:
        address = comparison_address(session.forked_from_id, session_id)
        runs.append(_session("Parent", session.forked_from, address))
    for take in takes(History(session))[::-1][:CANDIDATES]:
        reference = RunReference(session_id, None, take.rewind.position)
        steps = f"{take.steps:,} step{'s' * (take.steps != 1)} cut off after step {take.after_step:,}"
        runs.append(Candidate("Take", steps, "", comparison_address(reference, session_id)))
    forks = session.forks.only(*_SHOWN).order_by("-pk")[:CANDIDATES]
    runs += [_session("Fork", fork, comparison_address(session_id, fork.pk)) for fork in forks]
    shown = [session_id, *(fork.pk for fork in forks)]
    shown += [session.forked_from_id] if session.forked_from_id else []
    newest = _newest(session.project_id).exclude(pk__in=shown).only(*_SHOWN)[:CANDIDATES]
    return runs + [_session("Session", other, comparison_address(session_id, other.pk)) for other in newest]


def _newest(project_id: UUID) -> SessionQuerySet:
    listed = Session.objects.filter(project_id=project_id).exclude(status=Session.Status.ARCHIVED)
    return listed.newest_first()


@limit_statements(LIST_SECONDS)
def _with_words(sessions: SessionQuerySet, words: str) -> list[Session]:
    return list(sessions.search(words).only(*_SHOWN)[:CANDIDATES])


def _session(kind: str, other: Session, address: str) -> Candidate:
    detail = f"{other.steps:,} step{'s' * (other.steps != 1)}"
    detail = f"{other.agent} · {detail}" if other.agent else detail
    return Candidate(kind, str(other), detail, address, other.last_entry_at)


def read_place(text: str) -> PairPlace | None:
    """The place in ``12-14``; None for another text."""
    a, _, b = text.partition("-")
    is_place = all(part.isascii() and part.isdigit() and len(part) < 10 for part in (a, b))
    return PairPlace(int(a), int(b)) if is_place else None


def place_parameter(place: PairPlace | None) -> str:
    return f"{place.a}-{place.b}" if place else ""


def context_changes(a: History, b: History, place: PairPlace) -> Changes:
    """How the contexts before two steps differ, both chosen with the settings of the first run.

    Raises:
        Invalid: when one of them does not fit the budget.
    """
    spec = resolve_options(a.session, RequestedContext())

    def context_of(history: History, step: int) -> BuiltContext:
        as_of = history.row(step).first_position - 1 if 1 <= step <= history.steps else history.as_of
        options = RequestedContext(spec.policy, spec.format, spec.model, spec.max_tokens, as_of=as_of)
        return serve_context(history.session, options).built

    return changes(context_of(a, place.a), context_of(b, place.b), price_list(), None)


def page_rows(steps: AlignedSteps, index: int, **marks: int | None) -> dict[str, Any]:
    """The rows of the page that begins with a pair, in groups, and the start of the next page."""
    pairs, more = steps.page(index, PAGE)
    rows: list[ComparedPair] = []
    for number, pair in enumerate(pairs, index):
        if rows and rows[-1].is_first_divergence and (rows[-1].pair.change, pair.change) == _PARTED:
            parted = StepPair(rows[-1].pair.a, pair.b, (), is_exact=True)
            rows[-1] = replace(rows[-1], pair=parted, is_unmatched=True)
            continue
        is_divergence, is_difference = (number == marks.get(name) for name in ("divergence", "difference"))
        place = steps.places[number]
        rows.append(
            ComparedPair(pair, place, is_first_divergence=is_divergence, is_first_difference=is_difference)
        )
    return {
        "stretches": list(stretches(rows)),
        "more": place_parameter(more),
        "shows_divergence": any(row.is_first_divergence for row in rows),
    }
