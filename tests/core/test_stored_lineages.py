"""Stored lineages give the same spans as the complete lists that earlier versions stored at each rewind."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.lineage import BLOCK, Lineage, Span
from historyapp.core.live_spans import spans_at


@dataclass
class Session:
    """A session's lineage in two forms: as a complete list, and as stored with pointers."""

    name: str
    head: int = 0
    tail_start: int = 1
    whole: Lineage = field(default_factory=Lineage)
    closed: Lineage = field(default_factory=Lineage)

    def live(self) -> tuple[Lineage, Lineage]:
        tail = (self.name, self.tail_start, self.head)
        if self.tail_start > self.head:
            return self.whole, self.closed
        return self.whole.extend(*tail), self.closed.extend(*tail)


class Log:
    """What sessions store. A stored lineage never changes."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], Lineage] = {}
        self.loads = 0
        self.known: list[tuple[Lineage, Lineage]] = []
        self.sessions = [Session("0")]
        self._store(self.sessions[0], Lineage(), Lineage())

    def load(self, session: str, position: int) -> Lineage:
        self.loads += 1
        return Lineage.of(self.stored[session, position].dump(), self.load)

    def append(self, session: Session, entries: int) -> None:
        session.head += entries

    def rewind(self, session: Session, whole: Lineage, stored: Lineage, *, old_form: bool = False) -> None:
        self.known.append(session.live())
        session.head += 1
        self._store(session, whole, stored, old_form=old_form)

    def fork(self, parent: Session, position: int) -> None:
        whole, stored = (lineage.cut(position) for lineage in parent.live())
        child = Session(str(len(self.sessions)), head=position)
        self.sessions.append(child)
        self._store(child, whole, stored)

    def _store(self, session: Session, whole: Lineage, stored: Lineage, *, old_form: bool = False) -> None:
        kept = whole if old_form else stored.stored_form() if stored.newest else stored
        assert (session.name, session.head) not in self.stored
        self.stored[session.name, session.head] = kept
        session.whole, session.closed = whole, self.load(session.name, session.head)
        session.tail_start = session.head + 1


ACTIONS = st.tuples(
    st.sampled_from(["append", "append", "back", "back", "old", "undo", "fork"]),
    st.integers(0, 7),
    st.integers(0, 1000),
)


def play(actions: list[tuple[str, int, int]], after: Callable[[Session], None] = lambda _: None) -> Log:
    log = Log()
    for action, which, amount in actions:
        session = log.sessions[which % len(log.sessions)]
        whole, stored = session.live()
        # Most go back a little, as agents do; some go back anywhere.
        to = max(0, session.head - amount % 4) if amount % 5 else amount % (session.head + 1)
        if action == "append":
            log.append(session, 1 + amount % 3)
        elif action in ("back", "old"):
            log.append(session, 2)
            whole, stored = session.live()
            log.rewind(session, whole.cut(to), stored.cut(to), old_form=action == "old")
        elif action == "undo" and log.known:
            restored = log.known[amount % len(log.known)]
            owners = {*restored[0].sessions, *whole.sessions}
            if owners <= {session.name}:
                log.rewind(session, *restored)
        elif action == "fork" and len(log.sessions) < 6:
            log.fork(session, to)
        after(session)
    return log


def assert_same(whole: Lineage, stored: Lineage, at: int) -> None:
    spans = whole.spans
    assert stored.spans == spans
    assert stored.last == whole.last
    assert tuple(stored.between(1, whole.last, newest_first=True)) == spans[::-1]
    assert list(stored.between(at // 2, at)) == list(whole.between(at // 2, at))
    assert stored.cut(at).spans == whole.cut(at).spans
    assert bool(stored.cut(at).newest) == bool(whole.cut(at).newest)
    assert stored.session_at(at) == whole.session_at(at)
    at_all = {position: span for span in spans for position in range(span.first, span.last + 1)}
    assert spans_at(stored, range(whole.last + 3)) == at_all
    for span in spans[-20:]:
        assert stored.contains(span.session, span.last)


@given(st.lists(ACTIONS, max_size=120), st.integers(0, 300))
def test_stored_lineages_equal_complete_lists_after_any_operations(
    actions: list[tuple[str, int, int]], at: int
) -> None:
    log = play(actions)
    for session in log.sessions:
        assert_same(*session.live(), at)
    for whole, stored in log.known[-5:]:
        assert_same(whole, stored, at)
        other_whole, other = log.sessions[0].live()
        branch = stored.branch_off(other)
        live = set(other_whole.newest_first())
        assert list(branch.newest_first()) == [at for at in whole.newest_first() if at not in live]
        assert stored.branch_off(other, 2).spans == branch.spans[-2:]


@given(st.lists(ACTIONS, max_size=120))
def test_each_place_stores_few_rows(actions: list[tuple[str, int, int]]) -> None:
    log = play([action for action in actions if action[0] != "old"])
    for stored in log.stored.values():
        assert len(stored.newest) <= BLOCK
        assert len(stored.older) <= 2
        assert all(len(level) <= BLOCK for level in stored.older)


def steadily_rewound(times: int) -> Log:
    """Each rewind leaves one more span."""
    log = Log()
    for _ in range(times):
        log.append(log.sessions[0], 3)
        position = log.sessions[0].head - 1
        log.rewind(log.sessions[0], Lineage(), log.sessions[0].live()[1].cut(position))
    return log


@pytest.fixture(scope="module")
def long_log() -> Log:
    return steadily_rewound(10_000)


@pytest.mark.parametrize("at", [1, 17, 10_001, 39_990])
def test_a_position_among_ten_thousand_spans_is_found_with_four_reads(long_log: Log, at: int) -> None:
    log = long_log
    lineage = log.sessions[0].live()[1]
    log.loads = 0
    assert lineage.session_at(at) == "0"
    assert lineage.cut(at).last == at
    assert 1 <= len(list(lineage.between(at, at + 3))) <= 2
    assert log.loads <= 3 * 4 + 1


def test_the_spans_at_many_positions_take_one_read_for_each_level(long_log: Log) -> None:
    reads: list[int] = []
    lineage = replace(long_log.sessions[0].live()[1], load_all=lambda places: reads.append(len(list(places))))
    spans = spans_at(lineage, range(1, 40_001, 500))
    assert spans == {at: span for at in range(1, 40_001, 500) if (span := lineage._span_at(at))}
    assert len(spans) > 50
    assert len(reads) == len(lineage.older) == 3


def test_a_rewind_of_the_old_form_is_continued_in_the_new_one() -> None:
    spans = tuple(Span("0", 4 * n + 1, 4 * n + 3) for n in range(100))
    log = Log()
    log.sessions[0].head = spans[-1].last
    log.stored["0", 400] = Lineage(spans)
    session = replace(log.sessions[0], head=402, tail_start=401, whole=Lineage(spans), closed=Lineage(spans))
    whole, stored = session.live()
    new = replace(stored, load=log.load).stored_form()
    assert new.newest == (Span("0", 401, 402),)
    assert len(new.older[0]) == 1
    assert new.spans == whole.spans == (*spans, Span("0", 401, 402))
