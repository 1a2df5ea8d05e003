"""The Python client for agents: ``httpx`` and the core only, importable without Django (docs/agents.md)."""

from historyapp.client.answers import Episode
from historyapp.client.async_recorder import AsyncRecorder
from historyapp.client.awaiting import AsyncPlayhead
from historyapp.client.blocking import Playhead
from historyapp.client.call_answers import Answered, Delta
from historyapp.client.calls.compressing import Side
from historyapp.client.calls.contexts import ContextWish
from historyapp.client.calls.model_calls import CallWish
from historyapp.client.compression_answers import Comparison, CompressionRun, Estimate, StartedRun
from historyapp.client.context_answers import Context
from historyapp.client.errors import (
    Conflict,
    FieldError,
    Forbidden,
    Invalid,
    Malformed,
    ModelCallFailed,
    NotFound,
    NotPlayhead,
    NotSpooled,
    NotYetKnown,
    PlayheadError,
    ServerFailed,
    ServerUnavailable,
    TooLarge,
    Unauthenticated,
    UnreadableTranscript,
)
from historyapp.client.outage import Raise, Wait
from historyapp.client.recorder import Recorder
from historyapp.client.spool import RefusedWrite, Spool
from historyapp.core.actions import ActionProposal
from historyapp.core.entries import (
    DebugLog,
    EntryDraft,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    Thoughts,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.results import ActionError, ActionInterrupted, ActionSuccess, from_exception
from historyapp.core.settings import SessionSettings

__all__ = [
    "ActionError",
    "ActionInterrupted",
    "ActionProposal",
    "ActionSuccess",
    "Answered",
    "AsyncPlayhead",
    "AsyncRecorder",
    "CallWish",
    "Comparison",
    "CompressionRun",
    "Conflict",
    "Context",
    "ContextWish",
    "DebugLog",
    "Delta",
    "EntryDraft",
    "Episode",
    "Estimate",
    "FieldError",
    "Forbidden",
    "Invalid",
    "Malformed",
    "MemoryNotebook",
    "ModelCallFailed",
    "ModelInput",
    "ModelOutput",
    "NotFound",
    "NotPlayhead",
    "NotSpooled",
    "NotYetKnown",
    "Playhead",
    "PlayheadError",
    "Raise",
    "Recorder",
    "RefusedWrite",
    "Review",
    "ServerFailed",
    "ServerUnavailable",
    "SessionSettings",
    "Side",
    "Spool",
    "StartedRun",
    "SystemInstruction",
    "Thoughts",
    "TooLarge",
    "ToolCall",
    "ToolResult",
    "ToolResults",
    "Unauthenticated",
    "UnreadableTranscript",
    "UseTool",
    "Wait",
    "from_exception",
]
