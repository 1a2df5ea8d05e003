"""Few requests read many bytes at the same time, and one project only a part of them."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from zstandard import ZstdCompressor

from historyapp.core.json import dump_json
from historyapp.core.searchable import Passage
from historyapp.core.slots import Slots
from historyapp.front.application import Front
from historyapp.models import Project, Session, TextBlock, large_reads, long_rows
from historyapp.models.fields import sized_json, unpack
from historyapp.models.history import History
from historyapp.models.large_reads import LargeRead, RequestRead, read_for, request_read
from historyapp.models.text_blocks import unpack_text
from historyapp.services.append import append
from historyapp.services.keys import notify_of_credential
from historyapp.services.sessions import create_session
from historyapp.services.transactions import writing
from historyapp.wire.problems import ServerUnavailable
from tests.front.limits import small_limits
from tests.front.one_request import get
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _few_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_reads, "VERY_LARGE", 8000)
    monkeypatch.setattr(large_reads, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(large_reads, "LARGE_READS", Slots(2, of_owner=1, waiting=1))


@pytest.fixture
def session(transactional_db: None) -> Session:
    """Four steps with a result of 3,000 characters each."""
    session = create_session(Project.objects.create(name="Alice's"))
    append(
        session.project,
        session.pk,
        [draft for _ in range(4) for draft in (act("ls"), ok(outputs="x" * 3000))],
    )
    session.refresh_from_db()
    return session


@contextmanager
def request(owner: bytes, *, may_move: bool = False) -> Iterator[RequestRead]:
    """A request of the web server."""
    read = RequestRead(may_move=may_move)
    tokens = request_read.set(read), long_rows.bytes_left.set(long_rows.MAX_READ)
    try:
        read_for(owner)
        yield read
    finally:
        read.end()
        request_read.reset(tokens[0])
        long_rows.bytes_left.reset(tokens[1])


ALICE, BOB, CHARLIE = b"alice", b"bob", b"charlie"


def refusal(session: Session) -> tuple[str, float | None, str]:
    try:
        History(session).episodes(1, 4)
    except ServerUnavailable as error:
        return error.code, error.retry_after, error.detail[:35]
    raise AssertionError("the read was not refused")


def test_a_second_large_read_of_a_project_is_refused(session: Session) -> None:
    with request(ALICE):
        assert len(History(session).episodes(1, 4)) == 4
        with request(ALICE):
            assert refusal(session) == ("too-many-requests", 2, "Other requests of this project are ")
        with request(BOB):
            assert len(History(session).episodes(1, 4)) == 4
            with request(CHARLIE):
                assert refusal(session) == ("busy", 2, "Other requests of this server are r")
    with request(ALICE):
        assert len(History(session).episodes(1, 4)) == 4


def test_a_large_read_waits_for_another_one_of_the_project(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_reads, "WAIT_SECONDS", 10)
    with request(ALICE) as first:
        History(session).episodes(1, 4)
        timer = threading.Timer(0.05, first.end)
        timer.start()
        with request(ALICE):
            assert len(History(session).episodes(1, 4)) == 4
        timer.join()


def test_small_reads_need_no_slot(session: Session) -> None:
    with request(ALICE):
        History(session).episodes(1, 4)
        with request(ALICE):
            assert len(History(session).episodes(4, 4)) == 1


def test_a_read_within_a_transaction_needs_no_slot(session: Session) -> None:
    with request(ALICE):
        History(session).episodes(1, 4)
        with request(ALICE), writing():
            assert len(History(session).episodes(1, 4)) == 4


def test_workers_and_commands_need_no_slot(session: Session) -> None:
    with request(ALICE):
        History(session).episodes(1, 4)
        token = request_read.set(None)
        assert len(History(session).episodes(1, 4)) == 4
        request_read.reset(token)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_request_holds_its_slot_until_its_response_is_made(
    is_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = list[int]()

    def count_slots() -> None:
        taken.append(large_reads.LARGE_READS._taken[ALICE])

    def stream() -> Iterator[bytes]:
        count_slots()
        yield b"x"

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        notify_of_credential(ALICE)
        count_slots()
        long_rows.count_read(9000)
        count_slots()
        start_response("200 OK", [])
        return Stream(stream()) if is_stream else [b""]

    asyncio.run(get(Front(application, small_limits(), 1)))
    count_slots()
    assert taken == ([0, 1, 0, 0] if is_stream else [0, 1, 0])


class Stream:
    """A streaming response."""

    streaming = True

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces


def test_a_request_moves_before_a_long_text_is_unpacked(settings: Any) -> None:
    """Four requests that first unpacked 90 MB of JSON each took 0.6 GB in the web process."""
    settings.PLAYHEAD_LARGE_REQUEST = 10_000
    with request(ALICE, may_move=True):
        assert unpack(ZstdCompressor().compress(b"x" * 10_000)) == "x" * 10_000
        with pytest.raises(LargeRead):
            unpack(ZstdCompressor().compress(b"x" * 10_001))


@pytest.mark.parametrize(("text", "blocks"), [("x" * 10_000, 0), ("\udcff" * 2000, 1), ("é" * 2000, 9)])
def test_a_search_moves_when_it_reads_a_long_block_or_lone_surrogates(
    text: str, blocks: int, settings: Any
) -> None:
    """One of 28 million lone surrogates stopped the web process for 3.3 s."""
    settings.PLAYHEAD_LARGE_REQUEST = 10_000
    block = TextBlock.of(UUID(int=1), 1, 1, [Passage(1, 1, "input", text)])
    with request(ALICE, may_move=True):
        for _ in range(blocks):
            assert unpack_text(block.text).endswith(text)
        if blocks < 9:
            with pytest.raises(LargeRead):
                unpack_text(block.text)


def test_a_request_takes_its_slot_before_a_long_text_is_unpacked() -> None:
    """40 model calls that waited for one, each with a text of 112 MB, took 2.6 GB."""
    packed = ZstdCompressor().compress(b"x" * 8001)
    with request(ALICE):
        unpack(packed)
        with request(ALICE), pytest.raises(ServerUnavailable):
            unpack(packed)


def test_a_read_counts_as_much_as_its_json_has() -> None:
    """In memory, a letter of most languages takes one or two bytes, and in JSON six."""
    assert sized_json(dump_json("é" * 1000)) == ("é" * 1000, 6002)


def test_an_export_takes_no_slot() -> None:
    """It would keep the slot while it waits for its reader."""
    packed = ZstdCompressor().compress(b"x" * 8001)
    with request(ALICE):
        long_rows.bytes_left.set(None)  # as in each export
        assert len(unpack(packed)) == len(unpack_text(packed)) == 8001
        assert large_reads.LARGE_READS.take_at_once(ALICE)
