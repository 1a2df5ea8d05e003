"""Counts the tokens of a text, offline. Exact for OpenAI's models (o200k_base, cl100k_base)."""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

from historyapp.core.content import are_parts, plain_text
from historyapp.core.entries import Body, DebugLog, ModelOutput, Review, ToolCall, ToolResults, text_of
from historyapp.core.json import dump_json
from historyapp.core.text import clean
from historyapp.core.vocabularies import EncodingName, tokenizer

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""

_ESCAPE = "\\u"

# As in tiktoken. OpenAI models that are not listed use the newer encoding.
_CL100K = ("gpt-3.5", "gpt-35", "gpt-4", "text-embedding-ada", "text-embedding-3")
_O200K = ("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-", "o1", "o3", "o4", "chatgpt-", "codex-")


def encoding_for(model: str) -> EncodingName | None:
    """The encoding of an OpenAI model, with or without a provider before its name; None for all others."""
    name = model.rpartition(":")[2].rpartition("/")[2].lower()
    if name.startswith(_CL100K) and not name.startswith(_O200K[:3]):
        return "cl100k_base"
    return "o200k_base" if name.startswith(_O200K) else None


def counter_for(model: str) -> TokenCounter:
    """The exact counter of an OpenAI model; for other models that of the newest OpenAI models, as an
    estimate."""
    encoding = encoding_for(model)
    return partial(count_tokens, encoding=encoding) if encoding == "cl100k_base" else count_tokens


def cached_counter(count: TokenCounter, most: int) -> TokenCounter:
    """Counts a text that was counted recently only once.

    Keeps digests of the last ``most`` texts: the texts themselves may take gigabytes.
    """
    counts: dict[bytes, int] = {}

    def cached_count(text: str) -> int:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        tokens = counts.pop(digest, None)
        if tokens is None:
            tokens = count(text)
            if len(counts) >= most:
                del counts[next(iter(counts))]
        counts[digest] = tokens
        return tokens

    return cached_count


def count_tokens(text: str, encoding: EncodingName = "o200k_base") -> int:
    """Tokens of a text; exact unless it has characters that are newer in Unicode than the encodings."""
    return int(tokenizer(encoding).count(clean(text)))


def entry_tokens(body: Body, count: TokenCounter = count_tokens) -> int:
    """Tokens of an entry as its model reads or writes it; 0 for entries that never reach a model."""
    text = entry_text(_as_written(body))
    return count(text) if text else 0


def _as_written(body: Body) -> Body:
    """The body without plans that Claude Code added to calls, from a file, after the model had answered."""
    if not isinstance(body, ModelOutput) or not any(map(_has_plan_of_file, body.tool_calls)):
        return body
    calls = [
        tool_call.model_copy(update={"arguments": {**tool_call.arguments, "plan": "", "planFilePath": ""}})
        if _has_plan_of_file(tool_call)
        else tool_call
        for tool_call in body.tool_calls
    ]
    return body.model_copy(update={"tool_calls": tuple(calls)})


def shown_tokens(output: ModelOutput, tokens: int, count: TokenCounter = count_tokens) -> int:
    """Tokens of an output in a context, which also shows the plans that Claude Code added.

    Args:
        tokens: of the output, by :func:`entry_tokens`.
    """
    return count(entry_text(output)) if any(map(_has_plan_of_file, output.tool_calls)) else tokens


def _has_plan_of_file(tool_call: ToolCall) -> bool:
    arguments = tool_call.arguments
    return tool_call.name == "ExitPlanMode" and isinstance(arguments, dict) and "planFilePath" in arguments


def entry_text(body: Body) -> str:
    """The text of an entry as a model reads it, without any provider's framing."""
    match body:
        case ModelOutput():
            calls = body.tool_calls or ((body.use_tool,) if body.use_tool else ())
            texts = [f"{call.name} {_value(call.arguments)}" for call in calls]
            return _join(body.thoughts_text, body.text, *texts)
        case ToolResults():
            parts = [body.overall]
            for result in body.results:
                error = result.error.repr if result.error else None
                parts.append(_join(_value(result.outputs), result.reason, error, result.feedback))
            return _join(*parts)
        case Review():
            return _join(_value(body.analysis), _value(body.supervision))
        case DebugLog():
            return ""
        case _:
            return text_of(body.message_content)


def _join(*parts: str | None) -> str:
    return "\n".join(filter(None, parts))


def _value(value: Any) -> str:
    """As :func:`plain_text`, in a quarter of the time for JSON without other letters."""
    if value is None or isinstance(value, str) or are_parts(value):
        return plain_text(value)
    dumped = dump_json(value)
    return plain_text(value) if _ESCAPE in dumped else dumped
