"""Erasing a session with the client."""

import pytest

from historyapp.client import Conflict, ModelInput, NotFound, Playhead


def test_an_archived_session_is_erased_and_a_live_one_is_not(playhead: Playhead) -> None:
    id = playhead.create_session().id
    playhead.append(id, [ModelInput(content="go")])
    with pytest.raises(Conflict, match="Archive it first"):
        playhead.erase_session(id)
    playhead.archive_session(id)
    receipt = playhead.erase_session(id)
    assert (receipt.session, receipt.entries, receipt.steps) == (id, 1, 0)
    with pytest.raises(NotFound):
        playhead.session(id)
