"""Places of names are found in what is live, at the same cost however often a session was rewound."""

from itertools import pairwise
from random import Random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.lineage import Span
from historyapp.core.name_pages import GROUPS, pack_places, pages, place_of
from historyapp.models import NameIndex, NamePage, NameRun, Project, Session, StepNames
from historyapp.models.origins import KeyPlaces, first_actions, flagged_steps, key_places
from historyapp.services.sessions import create_session

KEYS = range(40)
LAST = 3_000


@pytest.fixture
def session(db: None) -> Session:
    return create_session(Project.objects.create(name="p"))


@pytest.fixture
def index(session: Session) -> NameIndex:
    return NameIndex.objects.create(session=session, position=LAST)


def stored(index: NameIndex, places: list[int]) -> None:
    run = NameRun.objects.create(index=index, size=len(places))
    for page in pages(sorted(places)):
        NamePage.objects.create(run=run, first=page[0], places=pack_places(page))


def live(random: Random, spans: int) -> list[Span]:
    """Spans of a session that was rewound, ascending."""
    cuts = sorted(random.sample(range(1, LAST), 2 * spans))
    return [Span("s", first, last) for first, last in list(pairwise(cuts))[::2]]


@pytest.mark.parametrize("spans", [1, 2, 60])
def test_the_first_and_the_newest_live_places_are_found(index: NameIndex, spans: int) -> None:
    random = Random(spans)
    known = [(random.choice(KEYS), random.choice(GROUPS), random.randint(1, LAST)) for _ in range(2_500)]
    known += [(7, "given", position) for position in range(1, LAST, 2)]  # more than a page
    places = list({place_of(*one) for one in known})
    for part in (places[::3], places[1::3], places[2::3]):
        stored(index, part)
    ranges = live(random, spans)
    places_by_key = key_places([(index.pk, span) for span in ranges[::-1]], KEYS)
    for key in KEYS:
        first: list[int | None] = []
        last: list[int | None] = []
        for group in GROUPS:
            here = [
                position
                for known_key, known_group, position in known
                if (known_key, known_group) == (key, group)
                and any(span.first <= position <= span.last for span in ranges)
            ]
            first.append(min(here, default=None))
            last.append(max(here, default=None))
        assert places_by_key.get(key) == (KeyPlaces(tuple(first), tuple(last)) if any(first) else None)
        action = first[GROUPS.index("action")]
        assert first_actions([(index.pk, span) for span in ranges[::-1]], [key]) == (
            {key: action} if action else {}
        )


def test_rewinds_cost_no_further_queries(index: NameIndex) -> None:
    stored(index, [place_of(key, "given", 10 * key + 1) for key in KEYS])
    StepNames.objects.create(index=index, position=1, number=1, unseen=1)
    counts = []
    for spans in (1, 60):
        ranges = [(index.pk, span) for span in live(Random(1), spans)[::-1]]
        with CaptureQueriesContext(connection) as queries:
            key_places(ranges, KEYS)
            first_actions(ranges, KEYS)
            flagged_steps(ranges, 10)
        counts.append(len(queries))
    assert counts[1] <= counts[0] + 2
