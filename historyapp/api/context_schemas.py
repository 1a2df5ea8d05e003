"""Shapes of contexts: what is asked for, and what is served."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from historyapp.api.fields import Line, Position, RequestBody
from historyapp.api.schemas import shown
from historyapp.core.formats import FORMATS
from historyapp.core.manifest import Manifest, Segment
from historyapp.core.policies import POLICIES
from historyapp.core.text import Text
from historyapp.services.contexts import RequestedContext
from historyapp.services.snapshots import ServedContext

POLICY = "How the context is chosen; without it the session's setting."
FORMAT = "The provider's shape; without it that of the model's provider, else `openai_chat`."
MODEL = "Whose tokens are counted; without it the session's `model`."
MAX_TOKENS = "Budget of the whole request; without it the session's setting."

PolicyName = Annotated[str, Field(max_length=100, json_schema_extra={"examples": list(POLICIES)})]
FormatName = Annotated[str, Field(max_length=100, json_schema_extra={"examples": list(FORMATS)})]
ModelName = Annotated[Line, Field(max_length=200)]
Budget = Position

_TOOL = {
    "name": "read_file",
    "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
_MANIFEST = Manifest(
    policy="budgeted",
    max_tokens=2048,
    tokens=13,
    segments=[Segment(source="input", position=1, tokens=10), Segment(source="overhead", tokens=3)],
)
TOKENS_EXAMPLE = {"estimated": 13, "counted": None, "factor": 1.0, "error": None, "learned_from": 0}
CONTEXT_EXAMPLE = {
    "request": {"messages": [{"role": "user", "content": "Make test_parser.py pass."}]},
    "manifest": _MANIFEST.model_dump(),
    "tokens": TOKENS_EXAMPLE,
    "snapshot": "0197c7e1-0c2d-7a10-8b11-0a1b2c3d4e5f",
    "sha256": "4a0f3f6f0f2b4c63c1a3f6b3d5b5f0b8a7c1d2e3f405162738495a6b7c8d9e0f",
}
MANIFEST_EXAMPLE = _MANIFEST.model_dump()


class Asked(RequestBody):
    """Base of what asks for a context."""

    policy: PolicyName | None = Field(default=None, description=POLICY)
    format: FormatName | None = Field(default=None, description=FORMAT)
    max_tokens: Budget | None = Field(default=None, description=MAX_TOKENS + " Null: no limit.")
    tools: list[dict[Text, Any]] = Field(
        default_factory=list,
        max_length=500,
        description="Functions that the model may call, in any provider's shape.",
    )
    live_screen: Text = Field(
        default="", description="A volatile text that rides behind the newest input or result. Never stored."
    )

    def wish(self, model: str | None, as_of: int | None = None) -> RequestedContext:
        return RequestedContext(
            policy=self.policy,
            format=self.format,
            model=model,
            max_tokens=self.max_tokens if "max_tokens" in self.model_fields_set else "session",
            tools=self.tools,
            live_screen=self.live_screen,
            as_of=as_of,
        )


class ContextIn(Asked):
    model_config = shown(
        {"policy": "budgeted", "format": "openai_chat", "max_tokens": 2048, "tools": [_TOOL]}
    )

    model: ModelName | None = Field(default=None, description=MODEL)
    as_of: Position | None = Field(
        default=None, description="Build it as the session stood when this position was its head."
    )
    record: bool = Field(default=True, description="Keep a snapshot of it.")
    count: bool = Field(default=False, description="Have the model's provider count its tokens, too.")


class TokensOut(BaseModel):
    """What a context costs."""

    estimated: int = Field(
        description="By our own count, of the whole request. Exact texts for OpenAI's models."
    )
    counted: int | None = Field(description="By the provider's count endpoint; null where it was not asked.")
    factor: float = Field(description="The model's tokens for each of ours, as far as known.")
    error: float | None = Field(
        description="Mean error of estimates for this model, as a share of what was billed; null: none yet."
    )
    learned_from: int = Field(description="Calls of this model whose usage has been reported.")


class ContextOut(BaseModel):
    model_config = shown(CONTEXT_EXAMPLE)

    request: dict[str, Any] = Field(description="The part of the provider's request that holds the context.")
    manifest: Manifest
    tokens: TokensOut
    snapshot: str | None = Field(description="Its id; null when none was recorded.")
    sha256: str = Field(description="Of the request's canonical bytes, without the live screen.")


def context_json(
    served: ServedContext, *, counted: int | None = None, snapshot: str | None = None
) -> dict[str, Any]:
    """The context as :class:`ContextOut`."""
    built, correction = served.built, served.correction
    return {
        "request": built.request,
        "manifest": built.manifest.model_dump(),
        "tokens": {
            "estimated": built.tokens,
            "counted": counted,
            "factor": built.spec.factor,
            "error": correction.error if correction else None,
            "learned_from": correction.calls if correction else 0,
        },
        "snapshot": snapshot,
        "sha256": built.sha256,
    }
