"""The tokens of messages, as Playhead counts them. Cached, because contexts share most messages."""

from functools import lru_cache

from bench.quality.corpus import Recorded
from historyapp.core.budget import RequestMeter
from historyapp.core.context import Item
from historyapp.core.conversation import ConversationPart
from historyapp.core.entries import MemoryNotebook, SystemInstruction
from historyapp.core.evaluation.measure import text_of_message
from historyapp.core.formats.openai_chat import OPENAI_CHAT
from historyapp.core.tokens import count_tokens

tokens_of = lru_cache(500_000)(count_tokens)
METER = RequestMeter(format="openai_chat", count=tokens_of)
_costs: dict[str, int] = {}


def messages_of(part: ConversationPart) -> list[Item]:
    """A turn or an aside as messages of OpenAI chat, the format of all policies here."""
    return OPENAI_CHAT.write(part).items


def cost_of(message: Item) -> int:
    key = f"{message['role']} {text_of_message(message)}"
    if key not in _costs:
        _costs[key] = METER.item_tokens([message])
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
    return sum(METER.fixed_tokens(system, notebook))
