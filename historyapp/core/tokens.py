"""How many tokens a text costs. Exact for OpenAI's current models (o200k_base), offline.

The vocabulary comes with the ``bpe-openai`` package and takes about 0.4 s to load, once per process.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from historyapp.core.entries import (
    Body,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    Thoughts,
    ToolResult,
    ToolResults,
    text_of,
)
from historyapp.core.text import clean, dump_json

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""

_CHUNK = 50_000  # characters: the tokenizer refuses more than 200,000 tokens, and a character has up to four


@cache
def _encoding() -> Any:
    from bpe_openai import get_encoding

    return get_encoding("o200k_base")


def count_tokens(text: str) -> int:
    """Tokens of a text in o200k_base. Longer texts than 50,000 characters are counted in pieces."""
    encode = _encoding().encode_ordinary
    return sum(len(encode(clean(text[i : i + _CHUNK]))) for i in range(0, len(text), _CHUNK))


def count_texts(texts: Iterable[str]) -> list[int]:
    """Tokens of each text."""
    return [count_tokens(text) if text else 0 for text in texts]


def entry_tokens(body: Body, count: TokenCounter = count_tokens) -> int:
    """Tokens of what a model would read of an entry; 0 for entries that never reach one."""
    text = entry_text(body)
    return count(text) if text else 0


def entry_text(body: Body) -> str:
    """What a model would read of an entry, in one text, without any provider's framing."""
    match body:
        case SystemInstruction():
            return body.text
        case MemoryNotebook():
            return body.content
        case ModelInput():
            return text_of(body.content)
        case ModelOutput():
            return _join(_thoughts(body.thoughts), body.text, *_calls(body))
        case ToolResults():
            return _join(body.overall, *(_result(result) for result in body.results))
        case Review():
            return _join(_value(body.analysis), _value(body.supervision))
        case _:
            return ""


def _join(*parts: str | None) -> str:
    return "\n".join(part for part in parts if part)


def _thoughts(thoughts: str | Thoughts | None) -> str | None:
    return thoughts.summary if isinstance(thoughts, Thoughts) else thoughts


def _calls(output: ModelOutput) -> list[str]:
    if output.tool_calls:
        return [f"{call.name} {_value(call.arguments)}" for call in output.tool_calls]
    return [f"{output.use_tool.name} {_value(output.use_tool.arguments)}"] if output.use_tool else []


def _result(result: ToolResult) -> str:
    error = result.error.repr if result.error else None
    return _join(_value(result.outputs), result.reason, error, result.feedback)


def _value(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else dump_json(value)
