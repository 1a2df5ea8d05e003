"""The recorder for async agents."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from historyapp.client import hooks
from historyapp.client.api_call import ApiCall, Id
from historyapp.client.async_client import AsyncPlayhead
from historyapp.client.endpoints import sessions
from historyapp.client.endpoints.contexts import serve_context
from historyapp.client.endpoints.model_calls import ModelCallOptions
from historyapp.client.http_messages import as_method
from historyapp.client.provider_responses import entries_of, open_calls
from historyapp.client.provider_streams import read_async_stream
from historyapp.client.recorder import log_step_in_flight
from historyapp.core.entries import ToolCall
from historyapp.core.errors import Conflict, NotFound
from historyapp.wire.contexts import ContextOut
from historyapp.wire.episodes import EpisodeOut
from historyapp.wire.model_calls import RecordedResponseOut

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["AsyncRecorder", P], Coroutine[Any, Any, T]]


def _recorded(describe: Callable[Concatenate[Id, P], ApiCall[T]]) -> Method[P, T]:
    async def method(self: "AsyncRecorder", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.playhead.execute(describe(self.session_id, *args, **kwargs))

    return as_method(describe, method, first=1)


class AsyncRecorder(hooks.SessionOfClient[AsyncPlayhead]):
    """One session as its agent sees it. Methods do what those of :class:`historyapp.client.Recorder` do.

    Args:
        session_id: of a session that exists; :meth:`open` makes it where it does not.
    """

    session = _recorded(sessions.session)
    configure = _recorded(hooks.configure)
    # Before the model
    get_messages = _recorded(hooks.get_messages)
    context = _recorded(serve_context)
    say = _recorded(hooks.say)
    append = _recorded(hooks.append)
    # Around an action
    after_parse = _recorded(hooks.after_parse)
    after_execute = _recorded(hooks.after_execute)
    after_call = _recorded(hooks.after_call)
    # Changing course
    rewind = _recorded(hooks.rewind)
    # Reading
    fmt_list = _recorded(hooks.fmt_list)
    fmt_paragraph = _recorded(hooks.fmt_paragraph)
    compile_progress = _recorded(hooks.compile_progress)

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
        return open_calls(drafts)

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
