"""The Python client for agents: it needs ``httpx`` and nothing of the server (docs/agents.md)."""

from historyapp.client.async_client import AsyncPlayhead
from historyapp.client.async_recorder import AsyncRecorder
from historyapp.client.endpoints.compressions import ComparisonSide
from historyapp.client.endpoints.contexts import ContextOptions
from historyapp.client.endpoints.model_calls import ModelCallOptions
from historyapp.client.errors import NotPlayhead, NotSpooled, NotYetKnown
from historyapp.client.outage import Raise, Wait
from historyapp.client.recorder import Recorder
from historyapp.client.spool import RefusedWrite, Spool
from historyapp.client.sync_client import Playhead
from historyapp.core.actions import (
    ActionError,
    ActionInterrupted,
    ActionProposal,
    ActionSuccess,
    from_exception,
)
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
from historyapp.core.errors import (
    Conflict,
    FieldError,
    Invalid,
    NotFound,
    PlayheadError,
    UnreadableTranscript,
)
from historyapp.core.settings import SessionSettings
from historyapp.wire.compressions import ComparisonOut as Comparison
from historyapp.wire.compressions import EstimateOut as Estimate
from historyapp.wire.compressions import RunOut as CompressionRun
from historyapp.wire.compressions import StartedOut as StartedRun
from historyapp.wire.contexts import ContextOut as Context
from historyapp.wire.episodes import EpisodeOut as Episode
from historyapp.wire.model_calls import DeltaOut as Delta
from historyapp.wire.model_calls import RecordedResponseOut as RecordedResponse
from historyapp.wire.problems import (
    Forbidden,
    Malformed,
    ModelCallFailed,
    ServerFailed,
    ServerUnavailable,
    TooLarge,
    Unauthenticated,
)

__all__ = [
    "ActionError", "ActionInterrupted", "ActionProposal", "ActionSuccess", "AsyncPlayhead",
    "AsyncRecorder", "Comparison", "ComparisonSide", "CompressionRun", "Conflict", "Context",
    "ContextOptions", "DebugLog", "Delta", "EntryDraft", "Episode", "Estimate", "FieldError", "Forbidden",
    "Invalid", "Malformed", "MemoryNotebook", "ModelCallFailed", "ModelCallOptions", "ModelInput",
    "ModelOutput", "NotFound", "NotPlayhead", "NotSpooled", "NotYetKnown", "Playhead", "PlayheadError",
    "Raise", "RecordedResponse", "Recorder", "RefusedWrite", "Review", "ServerFailed", "ServerUnavailable",
    "SessionSettings", "Spool", "StartedRun", "SystemInstruction", "Thoughts", "TooLarge", "ToolCall",
    "ToolResult", "ToolResults", "Unauthenticated", "UnreadableTranscript", "UseTool", "Wait",
    "from_exception",
]  # fmt: skip
