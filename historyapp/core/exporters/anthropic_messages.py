"""A session as Anthropic messages: ``{"model": …, "messages": […], "system": […]}``.

``system`` comes last, because the current instruction is known only at the session's end.
"""

from collections.abc import Iterable, Iterator

from historyapp.core.exporters.base import ExportSession
from historyapp.core.formats.anthropic_messages import AnthropicRendering
from historyapp.core.text import clean, dump_json


class _AnthropicMessages:
    name = "anthropic_messages"
    title = "Anthropic messages"
    media_type = "application/json"
    suffix = ".anthropic.json"
    live_only = True

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        rendering = AnthropicRendering()
        yield f'{{"model": {dump_json(clean(session.model))},\n"messages": ['
        for number, message in enumerate(rendering.messages(session.entries)):
            yield (",\n" if number else "\n") + dump_json(message)
        yield f'\n],\n"system": {dump_json(rendering.system)}}}\n'


ANTHROPIC_MESSAGES = _AnthropicMessages()
