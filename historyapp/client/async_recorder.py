"""The recorder for agents whose loop awaits."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Self, Unpack
from uuid import UUID

from historyapp.client.action_results import ToolCallLike, result_of, tool_result_of
from historyapp.client.answers import Appended, Registered
from historyapp.client.api_call import Id
from historyapp.client.async_client import AsyncPlayhead
from historyapp.client.endpoints.contexts import ContextOptions
from historyapp.client.endpoints.entries import NewEntry
from historyapp.client.endpoints.model_calls import ModelCallOptions
from historyapp.client.provider_responses import entries_of, open_calls
from historyapp.client.provider_streams import awaited
from historyapp.client.recorder import log_step_in_flight
from historyapp.core.actions import ActionProposal
from historyapp.core.entries import ModelInput, ToolCall, ToolResults
from historyapp.core.errors import Conflict, NotFound
from historyapp.wire.contexts import ContextOut, MessageOut
from historyapp.wire.episodes import EpisodeOut
from historyapp.wire.model_calls import AnsweredOut
from historyapp.wire.rewinds import RewindOut
from historyapp.wire.sessions import SessionOut


class AsyncRecorder:
    """One session as its agent sees it. Methods do what those of :class:`historyapp.client.Recorder` do.

    Args:
        session_id: of a session that exists; :meth:`open` makes it where it does not.
    """

    def __init__(self, playhead: AsyncPlayhead, session_id: Id) -> None:
        self.playhead = playhead
        self.session_id = UUID(str(session_id))

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

    async def session(self) -> SessionOut:
        return await self.playhead.session(self.session_id)

    async def configure(self, **settings: Any) -> SessionOut:
        return await self.playhead.change_session(self.session_id, settings=settings)

    async def get_messages(self, *, max_tokens: int | None = None) -> list[MessageOut]:
        return (await self.playhead.messages(self.session_id, max_tokens=max_tokens)).messages

    async def context(self, **options: Unpack[ContextOptions]) -> ContextOut:
        return await self.playhead.serve_context(self.session_id, **options)

    async def say(self, content: Any, *, channel: str = "user") -> Appended:
        return await self.append(ModelInput(channel=channel, content=content))

    async def append(self, *entries: NewEntry) -> Appended:
        return await self.playhead.append(self.session_id, entries)

    async def after_parse(
        self, proposal: ActionProposal, *, metadata: Mapping[str, Any] | None = None
    ) -> Registered:
        return await self.playhead.register_action(self.session_id, proposal, metadata=metadata)

    async def after_execute(self, result: object, *, metadata: Mapping[str, Any] | None = None) -> Registered:
        return await self.playhead.register_result(self.session_id, result_of(result), metadata=metadata)

    async def after_model(self, response: object, context: ContextOut | None = None) -> tuple[ToolCall, ...]:
        drafts = entries_of(await awaited(response), context)
        await self.append(*drafts)
        return open_calls(drafts)

    async def call_model(self, **options: Unpack[ModelCallOptions]) -> AnsweredOut:
        *_, answered = [event async for event in self.playhead.call_model(self.session_id, **options)]
        assert isinstance(answered, AnsweredOut)
        return answered

    async def after_call(self, call: ToolCallLike, result: object) -> Appended:
        return await self.append(ToolResults(results=(tool_result_of(call, result),)))

    async def rewind(self, number_of_episodes: int = 0, *, reason: str | None = None) -> RewindOut:
        return await self.playhead.rewind(self.session_id, episodes=number_of_episodes, reason=reason)

    async def fork(self, at_step: int | None = None, *, title: str | None = None) -> Self:
        child = await self.playhead.fork(self.session_id, at_step=at_step, title=title)
        return type(self)(self.playhead, child.id)

    async def in_flight(self) -> EpisodeOut | None:
        async for newest in self.playhead.full_episodes(self.session_id, order="newest", limit=1):
            return newest if newest.status == "in_flight" else None
        return None

    async def fmt_list(self) -> str:
        return await self.playhead.progress(self.session_id, "list")

    async def fmt_paragraph(self) -> str:
        return await self.playhead.progress(self.session_id, "paragraph")

    async def compile_progress(self, *, max_tokens: int | None = None) -> str:
        return await self.playhead.progress(self.session_id, "compiled", max_tokens=max_tokens)

    def __aiter__(self) -> AsyncIterator[EpisodeOut]:
        return self.playhead.full_episodes(self.session_id)
