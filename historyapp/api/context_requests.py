"""The bodies of requests for a context, and the JSON of a context."""

from typing import Annotated, Any

from pydantic import Field

from historyapp.api.fields import Line, Position, RequestBody, json_limit
from historyapp.api.responses import fill_json
from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.core.text import Text
from historyapp.services.contexts import RequestedContext
from historyapp.services.snapshots import ServedContext
from historyapp.wire.base import with_example
from historyapp.wire.contexts import ContextOut, ContextTokens

POLICY = "How the context is chosen. Default: the session's setting."
FORMAT = (
    "The provider's format. Default: the session's setting, else that of the model's provider, else "
    "`openai_chat`."
)
MODEL = "The model whose tokens are counted. Default: the session's `model`."
MAX_TOKENS_DESCRIPTION = "Budget of the whole request in tokens. Default: the session's setting."

MAX_TOOLS_SIZE = 1_000_000
"""Characters of the tools as compact JSON in ASCII. Each snapshot stores them."""
PolicyName = Annotated[str, Field(max_length=100, json_schema_extra={"examples": list(POLICIES)})]
FormatName = Annotated[str, Field(max_length=100, json_schema_extra={"examples": list(FORMATS)})]
ModelName = Annotated[Line, Field(max_length=200)]
Tools = Annotated[
    list[dict[Text, Any]],
    json_limit(
        MAX_TOOLS_SIZE, "have more than {limit} characters as JSON. Send fewer tools, or shorten them"
    ),
]

_TOOL = {
    "name": "read_file",
    "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


class ContextBody(RequestBody):
    """Base of requests for a context."""

    policy: PolicyName | None = Field(default=None, description=POLICY)
    format: FormatName | None = Field(default=None, description=FORMAT)
    max_tokens: Position | None = Field(default=None, description=MAX_TOKENS_DESCRIPTION + " Null: no limit.")
    tools: Tools = Field(
        default_factory=list,
        max_length=500,
        description="Functions that the model may call, in any provider's shape: at most "
        f"{MAX_TOOLS_SIZE:,} characters as compact JSON in ASCII.",
    )
    live_screen: Text = Field(
        default="",
        description="Text for this request only. Added after the newest input or result, and never stored.",
    )

    def options_for(self, model: str | None, as_of: int | None = None) -> RequestedContext:
        return RequestedContext(
            policy=self.policy,
            format=self.format,
            model=model,
            max_tokens=self.max_tokens if "max_tokens" in self.model_fields_set else "session",
            tools=self.tools,
            live_screen=self.live_screen,
            as_of=as_of,
        )


class ContextIn(ContextBody):
    model_config = with_example(
        {"policy": "budgeted", "format": "openai_chat", "max_tokens": 2048, "tools": [_TOOL]}
    )

    model: ModelName | None = Field(default=None, description=MODEL)
    as_of: Position | None = Field(
        default=None,
        description="Build the context of the session as it was when this position was its head.",
    )
    record: bool = Field(default=True, description="Store a snapshot of the context.")
    count: bool = Field(default=False, description="Also let the model's provider count the tokens.")


def context_json(
    served: ServedContext, *, counted: int | None = None, snapshot: str | None = None
) -> dict[str, Any]:
    """The context as :class:`ContextOut`.

    Not validated, because the request may have megabytes and already consists of JSON values.
    """
    built, correction = served.built, served.correction
    tokens = ContextTokens(
        estimated=built.tokens,
        counted=counted,
        factor=built.spec.factor,
        error=correction.error if correction else None,
        learned_from=correction.calls if correction else 0,
    )
    return fill_json(
        ContextOut, built, manifest=built.manifest.model_dump(), tokens=tokens, snapshot=snapshot
    )
