"""A session as OpenAI chat messages: ``{"model": …, "messages": […]}``."""

from collections.abc import Iterable, Iterator

from historyapp.core.episodes import conversation_parts
from historyapp.core.exporters.base import ExportSession
from historyapp.core.formats.openai_chat import OPENAI_CHAT
from historyapp.core.json import dump_json
from historyapp.core.text import clean


class _OpenAIMessages:
    name = "openai_messages"
    title = "OpenAI chat messages"
    media_type = "application/json"
    suffix = ".openai.json"
    live_only = True
    can_hide_inputs = False
    whole_steps = True

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        yield f'{{"model": {dump_json(clean(session.model))},\n"messages": ['
        messages = OPENAI_CHAT.joined(map(OPENAI_CHAT.write, conversation_parts(session.entries)))
        for number, message in enumerate(messages):
            yield (",\n" if number else "\n") + dump_json(message)
        yield "\n]}\n"


OPENAI_MESSAGES = _OpenAIMessages()
