"""What messages cost, as the product counts them; remembered, because contexts share most of theirs."""

from functools import lru_cache

from bench.quality.corpus import Recorded
from historyapp.core.budget import RequestMeter
from historyapp.core.entries import MemoryNotebook, SystemInstruction
from historyapp.core.manifest import Message
from historyapp.core.text import dump_json
from historyapp.core.tokens import count_tokens

tokens_of = lru_cache(500_000)(count_tokens)
METER = RequestMeter(format="openai_chat", count=tokens_of)
_costs: dict[str, int] = {}


def text_of_message(message: Message) -> str:
    content = message.content if isinstance(message.content, str) else dump_json(message.content)
    return content + (dump_json(message.tool_calls) if message.tool_calls else "")


def cost_of(message: Message) -> int:
    key = f"{message.role} {text_of_message(message)}"
    if key not in _costs:
        _costs[key] = METER.message(message)
    return _costs[key]


def fixed_cost(recorded: Recorded) -> int:
    """Of the newest instruction and notebook, with which every request begins."""
    system = notebook = ""
    for entry in recorded.fixed:
        match entry.body:
            case SystemInstruction(text=text):
                system = text
            case MemoryNotebook(content=text):
                notebook = text
    return METER.fixed(system, notebook).total
