"""Every failure is an exception that says what to do and does not contain the key."""

import pickle
import traceback
from uuid import UUID, uuid4

import pytest
from pytest_django.live_server_helper import LiveServer

from historyapp.client import (
    Conflict,
    Forbidden,
    Invalid,
    ModelInput,
    NotFound,
    Playhead,
    Raise,
    ServerUnavailable,
    TooLarge,
    Unauthenticated,
    UnreadableTranscript,
)
from historyapp.client.errors import error_of
from historyapp.models import Project
from tests.api.conftest import key_for


@pytest.fixture
def session_id(playhead: Playhead) -> UUID:
    return playhead.create_session().id


def test_a_missing_session_and_one_of_another_project_are_not_found(
    playhead: Playhead, session_id: UUID, live_server: LiveServer
) -> None:
    stranger = Playhead(live_server.url, key_for(Project.objects.create(name="Charlie's"), "charlie"))
    for client, id in ((playhead, uuid4()), (stranger, session_id)):
        with pytest.raises(NotFound) as caught:
            client.session(id)
        assert caught.value.status == 404
        assert str(id) in str(caught.value)


def test_a_conflict_has_the_head(playhead: Playhead, session_id: UUID) -> None:
    playhead.append(session_id, [ModelInput(content="go")])
    with pytest.raises(Conflict) as caught:
        playhead.append(session_id, [ModelInput(content="go")], expected_position=0)
    assert caught.value.head == 1


def test_the_error_of_an_invalid_request_names_the_fields(playhead: Playhead, session_id: UUID) -> None:
    with pytest.raises(Invalid) as caught:
        playhead.append(session_id, [{"kind": "model_input", "kontent": "go"}])
    messages = {error.loc[-1]: error.message for error in caught.value.errors}
    unknown = "is not a field of this request. Did you mean 'content'?"
    assert messages == {"content": "is missing", "kontent": unknown}
    assert caught.value.problem["type"] == "/docs/errors#not-valid"


def test_an_unknown_key_is_not_authenticated(live_server: LiveServer) -> None:
    with pytest.raises(Unauthenticated):
        list(Playhead(live_server.url, "ph_unknown").sessions())


def test_the_error_names_the_missing_scope(live_server: LiveServer) -> None:
    reader = key_for(Project.objects.create(name="R"), "reader", ("read",))
    with pytest.raises(Forbidden) as caught:
        Playhead(live_server.url, reader).create_session()
    assert caught.value.scope == "write"


def test_a_file_that_is_not_a_transcript_is_unreadable(playhead: Playhead) -> None:
    with pytest.raises(UnreadableTranscript):
        playhead.import_files([("x.bin", b"\0\1\2")])


def test_the_error_of_a_large_body_names_the_limit(
    playhead: Playhead, session_id: UUID, settings: pytest.FixtureRequest
) -> None:
    settings.PLAYHEAD_MAX_BODY = 1000  # type: ignore[attr-defined]
    with pytest.raises(TooLarge) as caught:
        playhead.append(session_id, [ModelInput(content="x" * 1000)])
    assert caught.value.max_body == 1000


@pytest.mark.parametrize("value", [float("nan"), object(), {("a",): 1}])
def test_values_that_json_cannot_represent_are_refused_before_sending(
    playhead: Playhead, session_id: UUID, value: object
) -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        playhead.append(session_id, [ModelInput(content=value)])


def test_an_unreachable_server_is_unavailable(api_key: str) -> None:
    with pytest.raises(ServerUnavailable) as caught:
        list(Playhead("http://127.0.0.1:9", api_key, on_outage=Raise(1)).sessions())
    assert caught.value.status is None
    assert "GET /sessions got no response" in str(caught.value)


def test_no_text_contains_the_key(api_key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    client = Playhead("http://somebody:secret@127.0.0.1:9", api_key, on_outage=Raise(2))
    with pytest.raises(ServerUnavailable) as caught:
        list(client.sessions())
    texts = [repr(client), repr(caught.value), caplog.text, "".join(traceback.format_exception(caught.value))]
    assert all(api_key not in text and "secret" not in text for text in texts)
    assert "retrying in" in caplog.text


@pytest.mark.parametrize("key", ["", "ph_\n", "ph_ü", "ph_a b"])
def test_a_key_that_is_invalid_in_a_header_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII") as caught:
        Playhead("http://127.0.0.1:9", key)
    assert not key or key not in str(caught.value)


def test_an_error_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(error_of({"status": 409, "detail": "no", "head": 3})))
    assert isinstance(error, Conflict)
    assert (str(error), error.head) == ("no", 3)


@pytest.mark.parametrize("errors", [None, "x", [1], [{}]])
def test_an_unusual_problem_document_becomes_an_error(errors: object) -> None:
    error = error_of({"status": 422, "errors": errors})
    assert isinstance(error, Invalid)
    assert all(field_error.loc == () for field_error in error.errors)
    assert str(error) == "no details"
