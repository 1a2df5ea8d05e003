"""The hooks that an agent's loop needs, over one session."""

import logging
from collections.abc import Iterator
from typing import Any, Self, Unpack, overload
from uuid import UUID

from historyapp.client import hooks
from historyapp.client.api_call import Id
from historyapp.client.endpoints.model_calls import ModelCallOptions
from historyapp.client.provider_responses import entries_of, open_tool_calls
from historyapp.client.recorder_methods import RecorderMethod, RecorderMethods
from historyapp.client.sync_client import Playhead
from historyapp.core.entries import ToolCall
from historyapp.core.errors import Conflict, NotFound
from historyapp.wire.contexts import ContextOut
from historyapp.wire.episodes import EpisodeOut
from historyapp.wire.model_calls import RecordedResponseOut
from historyapp.wire.sessions import SessionOut

log = logging.getLogger(__name__)


def log_step_in_flight(session_id: UUID, step: EpisodeOut | None) -> None:
    """Logs that a step is in flight, for people who read the log after a crash."""
    if step is not None:
        log.warning("Session %s has an action in flight: step %d", session_id, step.number)


class Recorder(RecorderMethods[Playhead]):
    """One session as its agent sees it.

    It stores no state: every method sends requests to the server, and raises the errors of :class:`Playhead`.
    So a recorder in another process sees the same history.

    Args:
        session_id: the id of an existing session; :meth:`open` can also create a session.
    """

    # Names from the earlier episodic history
    register_action = RecorderMethod(hooks.after_parse)
    register_result = RecorderMethod(hooks.after_execute)

    @classmethod
    def open(cls, playhead: Playhead, session_id: Id | None = None, **fields: Any) -> Self:
        """Opens the session with this id, or creates it. Without an id, always creates a new session.

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

    def after_model(self, response: object, context: ContextOut | None = None) -> tuple[ToolCall, ...]:
        """Records the response of a model, with its usage, and returns the tool calls to carry out.

        Args:
            response: a response or a chat completion of OpenAI or a message of Anthropic, as the SDK returns
                it; a stream of one of them, or the events of a stream that you have read, in a list.
            context: the context that was sent to the model. It links the snapshot to the response, and lets
                the server learn from the usage.

        Raises:
            ValueError: when the response is of another kind, or a stream that ended early. Nothing is
                recorded then.
        """
        drafts = entries_of(response, context)
        self.append(*drafts)
        return open_tool_calls(drafts)

    def call_model(self, **options: Unpack[ModelCallOptions]) -> RecordedResponseOut:
        """Lets the server call a model with a new context and record the response, which is returned.

        Raises:
            ModelCallFailed: when the provider returns no usable response. The history does not change.
        """
        *_, response = self.playhead.call_model(self.session_id, **options)
        assert isinstance(response, RecordedResponseOut)
        return response

    def fork(self, at_step: int | None = None, *, title: str | None = None) -> Self:
        """A recorder of a new session that shares this session's steps up to ``at_step``, or all of them."""
        child = self.playhead.fork(self.session_id, at_step=at_step, title=title)
        return type(self)(self.playhead, child.id)

    @property
    def in_flight(self) -> EpisodeOut | None:
        """The step whose action has no result yet. After a crash it is the step that was left open.

        ``rewind()`` drops it; ``after_execute(ActionInterrupted(feedback=…))`` closes it and keeps it.
        """
        newest = next(self.playhead.full_episodes(self.session_id, order="newest", limit=1), None)
        return newest if newest is not None and newest.status == "in_flight" else None

    @property
    def cursor(self) -> int:
        """The number of finished steps."""
        return len(self) - (self.in_flight is not None)

    def __len__(self) -> int:
        return self.session.steps

    def __iter__(self) -> Iterator[EpisodeOut]:
        return self.playhead.full_episodes(self.session_id)

    @overload
    def __getitem__(self, index: int) -> EpisodeOut: ...
    @overload
    def __getitem__(self, index: slice) -> list[EpisodeOut]: ...
    def __getitem__(self, index: int | slice) -> EpisodeOut | list[EpisodeOut]:
        """Steps as in a list: ``[0]`` is step 1, ``[-1]`` the newest step.

        ``str()`` of a step is its long form, ``short`` its short form.
        """
        steps = range(1, len(self) + 1)
        if isinstance(index, slice):
            numbers = steps[index]
            if not numbers:
                return []
            first, last = min(numbers), max(numbers)
            episodes = self.playhead.full_episodes(self.session_id, from_step=first, to_step=last)
            by_number = {episode.number: episode for episode in episodes}
            return [by_number[number] for number in numbers]
        if not -len(steps) <= index < len(steps):
            raise IndexError(f"There is no step at index {index}. The session has {len(steps)} steps.")
        return self.playhead.episode(self.session_id, steps[index])

    current_episode = in_flight

    @property
    def episodes(self) -> list[EpisodeOut]:
        """All steps."""
        return list(self)
