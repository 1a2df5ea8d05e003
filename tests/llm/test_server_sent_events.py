"""Server-sent events of providers, by the rules of the HTML standard."""

import pytest

from historyapp.llm import server_sent_events
from historyapp.llm.server_sent_events import EventTooLong, read_events

TEXT = (
    b": comment\n\nevent: a\ndata: 1\n\nid: 7\n\ndata:2\r\ndata:  3\r\n\r\n"
    b"event: b\rdata: \xc3\xa9\r\rdata: lost"
)
EVENTS = [("a", "1"), ("", "2\n 3"), ("b", "é")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_do_not_depend_on_how_their_bytes_arrive(size: int) -> None:
    parts = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    assert list(read_events(parts)) == EVENTS


def test_an_event_of_many_lines_is_limited_as_one_long_line_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_sent_events, "MAX_EVENT", 100)
    assert len(list(read_events([b"data: 1\n\n" * 50]))) == 50
    for part in (b":\n", b"data: 1\n", b"1"):
        with pytest.raises(EventTooLong):
            list(read_events([part] * 101))
