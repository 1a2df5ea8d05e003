"""The recorder for async agents."""

from collections.abc import AsyncIterator
from typing import Any, Self, Unpack

from historyapp.client.api_call import Id
from historyapp.client.async_client import AsyncPlayhead
from historyapp.client.endpoints import sessions
from historyapp.client.endpoints.model_calls import ModelCallOptions
from historyapp.client.provider_responses import entries_of, open_tool_calls
from historyapp.client.provider_streams import read_async_stream
from historyapp.client.recorder import log_step_in_flight
from historyapp.client.recorder_methods import RecorderMethod, RecorderMethods
from historyapp.core.entries import ToolCall
from historyapp.core.errors import Conflict, NotFound
from historyapp.wire.contexts import ContextOut
from historyapp.wire.episodes import EpisodeOut
from historyapp.wire.model_calls import RecordedResponseOut


class AsyncRecorder(RecorderMethods[AsyncPlayhead]):
    """One session as its agent sees it, with the methods of :class:`historyapp.client.Recorder`.

    Args:
        session_id: the id of an existing session; :meth:`open` can also create a session.
    """

    session = RecorderMethod(sessions.session)

    @classmethod
    async def open(cls, playhead: AsyncPlayhead, session_id: Id | None = None, **fields: Any) -> Self:
        try:
            return cls(playhead, (await playhead.create_session(id=session_id, **fields)).id)
        except Conflict as conflict:
            assert session_id is not None
            recorder = cls(playhead, session_id)
            try:
                log_step_in_flight(recorder.session_id, await recorder.in_flight())
            except NotFound:
                raise conflict from None  # the id is taken, but not in this project
            return recorder

    async def after_model(self, response: object, context: ContextOut | None = None) -> tuple[ToolCall, ...]:
        drafts = entries_of(await read_async_stream(response), context)
        await self.append(*drafts)
        return open_tool_calls(drafts)

    async def call_model(self, **options: Unpack[ModelCallOptions]) -> RecordedResponseOut:
        *_, response = [event async for event in self.playhead.call_model(self.session_id, **options)]
        assert isinstance(response, RecordedResponseOut)
        return response

    async def fork(self, at_step: int | None = None, *, title: str | None = None) -> Self:
        child = await self.playhead.fork(self.session_id, at_step=at_step, title=title)
        return type(self)(self.playhead, child.id)

    async def in_flight(self) -> EpisodeOut | None:
        async for newest in self.playhead.full_episodes(self.session_id, order="newest", limit=1):
            return newest if newest.status == "in_flight" else None
        return None

    def __aiter__(self) -> AsyncIterator[EpisodeOut]:
        return self.playhead.full_episodes(self.session_id)
