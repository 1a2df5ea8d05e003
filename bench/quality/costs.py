"""The tokens of messages, as Playhead counts them. Cached, because contexts share most messages."""

import json
from functools import lru_cache

from bench.quality.corpus import Recorded
from historyapp.core.budget import RequestMeter
from historyapp.core.context import Item
from historyapp.core.conversation import ConversationPart
from historyapp.core.entries import MemoryNotebook, SystemInstruction
from historyapp.core.formats.openai_chat import OPENAI_CHAT
from historyapp.core.identifiers import texts_in
from historyapp.core.json import dump_json
from historyapp.core.tokens import count_tokens

tokens_of = lru_cache(500_000)(count_tokens)
METER = RequestMeter(format="openai_chat", count=tokens_of)
_costs: dict[str, int] = {}


def messages_of(part: ConversationPart) -> list[Item]:
    """A turn or an aside as messages of OpenAI chat, the format of all policies here."""
    return OPENAI_CHAT.write(part).items


def text_of_message(message: Item) -> str:
    content = message["content"]
    text = content if isinstance(content, str) else dump_json(content)
    return text + dump_json(message["tool_calls"]) if "tool_calls" in message else text


def readable(message: Item) -> str:
    """The text of a message, and its arguments with their line breaks."""
    arguments = [json.loads(each["function"]["arguments"]) for each in message.get("tool_calls", ())]
    return "\n".join((*texts_in(message["content"]), *texts_in(arguments)))


def cost_of(message: Item) -> int:
    key = f"{message['role']} {text_of_message(message)}"
    if key not in _costs:
        _costs[key] = METER.items([message])
    return _costs[key]


def fixed_cost(recorded: Recorded) -> int:
    """The tokens of the newest instruction and notebook, which begin every request."""
    system = notebook = ""
    for entry in recorded.fixed:
        match entry.body:
            case SystemInstruction(text=text):
                system = text
            case MemoryNotebook(content=text):
                notebook = text
    return sum(METER.fixed(system, notebook))
