"""The hooks that an agent's loop needs, over one session."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Self, Unpack, overload
from uuid import UUID

from historyapp.client.action_results import ToolCallLike, result_of, tool_result_of
from historyapp.client.answers import Appended, Registered
from historyapp.client.api_call import Id
from historyapp.client.endpoints.contexts import ContextOptions
from historyapp.client.endpoints.entries import NewEntry
from historyapp.client.endpoints.model_calls import ModelCallOptions
from historyapp.client.provider_responses import entries_of, open_calls
from historyapp.client.sync_client import Playhead
from historyapp.core.actions import ActionProposal
from historyapp.core.entries import ModelInput, ToolCall, ToolResults
from historyapp.core.errors import Conflict, NotFound
from historyapp.wire.contexts import ContextOut, MessageOut
from historyapp.wire.episodes import EpisodeOut
from historyapp.wire.model_calls import AnsweredOut
from historyapp.wire.rewinds import RewindOut
from historyapp.wire.sessions import SessionOut

log = logging.getLogger(__name__)


def log_step_in_flight(session_id: UUID, left: EpisodeOut | None) -> None:
    """Writes it to the log, where people look after a crash."""
    if left is not None:
        log.warning("Session %s has an action in flight: step %d", session_id, left.number)


class Recorder:
    """One session as its agent sees it: what it recorded is what it reads, also in another process.

    It keeps nothing itself. Every method asks the server, and raises as :class:`Playhead` does.

    Args:
        session_id: of a session that exists; :meth:`open` makes it where it does not.
    """

    def __init__(self, playhead: Playhead, session_id: Id) -> None:
        self.playhead = playhead
        self.session_id = UUID(str(session_id))

    @classmethod
    def open(cls, playhead: Playhead, session_id: Id | None = None, **fields: Any) -> Self:
        """The session of this id, made if there is none; without an id always a new one.

        An agent that was killed continues by opening the same id. If an action was in flight, the log says
        so; see :attr:`in_flight`.

        Args:
            fields: of a new session: ``title``, ``agent``, ``model``, ``tags``, ``settings``, ``metadata``.
        """
        try:
            return cls(playhead, playhead.create_session(id=session_id, **fields).id)
        except Conflict as conflict:
            assert session_id is not None
            recorder = cls(playhead, session_id)
            try:
                log_step_in_flight(recorder.session_id, recorder.in_flight)
            except NotFound:
                raise conflict from None  # the id is taken, but not in this project
            return recorder

    @property
    def session(self) -> SessionOut:
        """The session with its settings, instruction, notebook and counters."""
        return self.playhead.session(self.session_id)

    def configure(self, **settings: Any) -> SessionOut:
        """Changes session settings: ``full_message_count``, ``max_tokens`` …"""
        return self.playhead.change_session(self.session_id, settings=settings)

    # Before the model

    def get_messages(self, *, max_tokens: int | None = None) -> list[MessageOut]:
        """The context of the policy ``episodic``, as the session's settings have it."""
        return self.playhead.messages(self.session_id, max_tokens=max_tokens).messages

    def context(self, **options: Unpack[ContextOptions]) -> ContextOut:
        """What the model is sent next, within a budget and as its provider wants it; a snapshot is kept.

        Options that are left out are as the session's settings say; see
        :class:`historyapp.client.ContextOptions`.

        Raises:
            Invalid: when the budget is too small; ``smallest`` is one that works.
        """
        return self.playhead.serve_context(self.session_id, **options)

    def say(self, content: Any, *, channel: str = "user") -> Appended:
        """Records the input of a person or another program: text, or a list of parts."""
        return self.append(ModelInput(channel=channel, content=content))

    def append(self, *entries: NewEntry) -> Appended:
        """Records entries of any kinds: all of them or none."""
        return self.playhead.append(self.session_id, entries)

    # Around an action

    def after_parse(
        self, proposal: ActionProposal, *, metadata: Mapping[str, Any] | None = None
    ) -> Registered:
        """Records an action before it runs.

        Args:
            metadata: free: ``usage``, ``cost``, ``model`` …

        Raises:
            Conflict: while another action is in flight.
        """
        return self.playhead.register_action(self.session_id, proposal, metadata=metadata)

    def after_execute(self, result: object, *, metadata: Mapping[str, Any] | None = None) -> Registered:
        """Records the result of the action in flight.

        Args:
            result: ``ActionSuccess``, ``ActionError`` or ``ActionInterrupted``; an exception, which is an
                error; any other value, which is a success.

        Raises:
            Conflict: when no action is in flight.
        """
        return self.playhead.register_result(self.session_id, result_of(result), metadata=metadata)

    def after_model(self, response: object, context: ContextOut | None = None) -> tuple[ToolCall, ...]:
        """Records the response of a model, with its usage, and returns the tool calls to carry out.

        Args:
            response: a response or a chat completion of OpenAI or a message of Anthropic, as the SDK returns
                it; a stream of one of them, or the events of a stream that you have read, in a list.
            context: what the model was sent. It links the snapshot, and the server learns from its bill.

        Raises:
            ValueError: when it is none of these, or a stream that broke off. Nothing is recorded then.
        """
        drafts = entries_of(response, context)
        self.append(*drafts)
        return open_calls(drafts)

    def call_model(self, **options: Unpack[ModelCallOptions]) -> AnsweredOut:
        """The server calls a model with a fresh context and records the answer, ``output.tool_calls`` in it.

        Raises:
            ModelCallFailed: when the provider gives no answer; the history is as it was.
        """
        *_, answered = self.playhead.call_model(self.session_id, **options)
        assert isinstance(answered, AnsweredOut)
        return answered

    def after_call(self, call: ToolCallLike, result: object) -> Appended:
        """Records the result of one provider tool call; ``result`` as in :meth:`after_execute`."""
        return self.append(ToolResults(results=(tool_result_of(call, result),)))

    # Changing course

    def rewind(self, number_of_episodes: int = 0, *, reason: str | None = None) -> RewindOut:
        """Drops the step in flight, then this many finished ones. They stay as a take."""
        return self.playhead.rewind(self.session_id, episodes=number_of_episodes, reason=reason)

    def fork(self, at_step: int | None = None, *, title: str | None = None) -> Self:
        """A recorder over a new session that shares this one's steps up to ``at_step``, or all of them."""
        child = self.playhead.fork(self.session_id, at_step=at_step, title=title)
        return type(self)(self.playhead, child.id)

    # Reading

    @property
    def in_flight(self) -> EpisodeOut | None:
        """The step whose action has no result yet. After a crash it is the step that was left open.

        ``rewind()`` drops it; ``after_execute(ActionInterrupted(feedback=…))`` closes it and keeps it.
        """
        newest = next(self.playhead.full_episodes(self.session_id, order="newest", limit=1), None)
        return newest if newest is not None and newest.status == "in_flight" else None

    @property
    def cursor(self) -> int:
        """How many steps are finished."""
        return len(self) - (self.in_flight is not None)

    def fmt_list(self) -> str:
        """A line for each step."""
        return self.playhead.progress(self.session_id, "list")

    def fmt_paragraph(self) -> str:
        """Each step in its long form."""
        return self.playhead.progress(self.session_id, "paragraph")

    def compile_progress(self, *, max_tokens: int | None = None) -> str:
        """Summaries, and long forms where there are none, within a budget in tokens."""
        return self.playhead.progress(self.session_id, "compiled", max_tokens=max_tokens)

    def __len__(self) -> int:
        return self.session.steps

    def __iter__(self) -> Iterator[EpisodeOut]:
        return self.playhead.full_episodes(self.session_id)

    @overload
    def __getitem__(self, index: int) -> EpisodeOut: ...
    @overload
    def __getitem__(self, index: slice) -> list[EpisodeOut]: ...
    def __getitem__(self, index: int | slice) -> EpisodeOut | list[EpisodeOut]:
        """Steps as in a list: ``[0]`` is step 1, ``[-1]`` the newest one.

        ``str()`` of a step is its long form, ``short`` its short one.
        """
        steps = range(1, len(self) + 1)
        if isinstance(index, slice):
            return self._steps(steps[index])
        if not -len(steps) <= index < len(steps):
            raise IndexError(f"There is no step at index {index}. The session has {len(steps)} steps.")
        return self.playhead.episode(self.session_id, steps[index])

    def _steps(self, wanted: range) -> list[EpisodeOut]:
        if not wanted:
            return []
        first, last = min(wanted), max(wanted)
        found = self.playhead.full_episodes(self.session_id, from_step=first, to_step=last)
        steps = {episode.number: episode for episode in found}
        return [steps[number] for number in wanted]

    # As the earlier episodic history had it
    current_episode = in_flight
    register_action = after_parse
    register_result = after_execute

    @property
    def episodes(self) -> list[EpisodeOut]:
        """All steps."""
        return list(self)
