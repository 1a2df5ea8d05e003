"""Sub-agents: the task that they were given, and their report."""

from dashboard.rendering.blocks import MARKDOWN
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from dashboard.tools.web import prose
from historyapp.core.text import preview

_TITLES = ("description", "title")
_PROMPTS = ("prompt", "task", "message")
_FACTS = ("subagent_type", "agent_type", "model")


def fits(tool_call: RecordedCall) -> bool:
    return tool_call.subject.kind == "agent" and bool(tool_call.text_of(*_TITLES, *_PROMPTS))


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    prompt = next((name for name in _PROMPTS if tool_call.text_of(name)), "")
    title = next((name for name in _TITLES if tool_call.text_of(name)), prompt)
    facts = [preview(fact) for fact in map(tool_call.text_of, _FACTS) if fact]
    card = Card(title=preview(tool_call.text_of(title)), facts=facts)
    if prompt:
        card.request = [make.request("prompt", tool_call.text_of(prompt), MARKDOWN, "Task")]
    card.values = further_values(tool_call, make, prompt, title, *_FACTS)
    card.response = answer_blocks(tool_call, make, lambda text, key: prose(make, text, key))
    return card


SUBAGENT = ToolView(name="subagent", fits=fits, draw=draw)
