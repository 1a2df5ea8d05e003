"""Every format keeps the rules of all providers, and the checks refuse a broken format."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest

from historyapp.core.context import Context, Item
from historyapp.core.conversation import InputMessage, Turn
from historyapp.core.formats import FORMATS
from historyapp.core.formats.base import Format, Frame, Role
from historyapp.core.formats.openai_chat import OpenAIChat
from tests.core.entries import calls
from tests.core.formats.any_provider import (
    check_frame,
    check_images,
    check_pairs,
    check_readers,
    check_request,
    check_texts,
    request_of,
)
from tests.core.formats.contexts import NOT_TEXT
from tests.core.formats.refusals import Refused

EVERY = pytest.mark.parametrize("name", FORMATS)


def check_names(format: Format) -> None:
    check_request(format, request_of(format, calls("a", name="a b/ä")))


@EVERY
def test_an_illegal_name_is_replaced(name: str) -> None:
    check_names(FORMATS[name])


@EVERY
def test_every_text_of_a_session_occurs_once_in_its_request(name: str) -> None:
    check_texts(FORMATS[name])


@EVERY
def test_every_result_is_under_its_call(name: str) -> None:
    check_pairs(FORMATS[name])


@EVERY
def test_parts_that_are_not_text_are_sent_or_named(name: str) -> None:
    check_images(FORMATS[name], *NOT_TEXT)


@EVERY
def test_the_texts_that_a_format_declares_are_added(name: str) -> None:
    check_frame(FORMATS[name])


@EVERY
def test_items_tools_and_roles_are_read_as_they_were_written(name: str) -> None:
    check_readers(FORMATS[name])


class OtherField(OpenAIChat):
    items_field = "input"


class OtherTools(OpenAIChat):
    """Writes tools into a field that it does not read."""

    def tool_fields(self, tools: list[Item]) -> dict[str, Any]:
        return {"functions": tools}


class UnknownRole(OpenAIChat):
    roles: ClassVar[dict[str, Role]] = {"user": "user"}


class SameIds(OpenAIChat):
    def with_ids(self, items: Sequence[Item], ids: Sequence[str]) -> list[Item]:
        return list(items)


class OneId(OpenAIChat):
    """Every result has the id of the first call."""

    def fields(self, context: Context, items: list[Item]) -> dict[str, Any]:
        ids = [item["tool_call_id"] for item in items if item["role"] == "tool"]
        return super().fields(
            context, [{**i, "tool_call_id": ids[0]} if i["role"] == "tool" else i for i in items]
        )


class SwappedResults(OpenAIChat):
    def turn_items(self, turn: Turn) -> Iterable[Item]:
        items = list(super().turn_items(turn))
        if len(turn.results) == 2:
            first, second = items[1:3]
            items[1:3] = [{**first, "content": second["content"]}, {**second, "content": first["content"]}]
        return items


class ResultsOfTheUser(OpenAIChat):
    def turn_items(self, turn: Turn) -> Iterable[Item]:
        for item in super().turn_items(turn):
            yield {"role": "user", "content": item["content"]} if item["role"] == "tool" else item


class WithoutIds(OpenAIChat):
    """A broken format for a provider without ids: it also writes results as the user's text."""

    def fields(self, context: Context, items: list[Item]) -> dict[str, Any]:
        functions = [
            {**i, "tool_calls": [call["function"] for call in i["tool_calls"]]} if "tool_calls" in i else i
            for i in items
        ]
        return super().fields(
            context,
            [{"role": "user", "content": i["content"]} if i["role"] == "tool" else i for i in functions],
        )


class BlankText(OpenAIChat):
    def turn_items(self, turn: Turn) -> Iterable[Item]:
        for item in super().turn_items(turn):
            yield {**item, "content": item["content"] or ""}


class BlankPart(OpenAIChat):
    def input_items(self, message: InputMessage) -> Iterable[Item]:
        for item in super().input_items(message):
            parts = item["content"] if isinstance(item["content"], list) else []
            yield {**item, "content": [*parts, {"type": "text", "text": " "}] if parts else item["content"]}


class AnyName(OpenAIChat):
    def turn_items(self, turn: Turn) -> Iterable[Item]:
        names = [call.name for call in turn.output.tool_calls]
        for item in super().turn_items(turn):
            pairs = zip(names, item.get("tool_calls", []), strict=False)
            renamed_calls = [{**call, "function": {**call["function"], "name": name}} for name, call in pairs]
            yield {**item, "tool_calls": renamed_calls} if renamed_calls else item


class NoFrame(OpenAIChat):
    def frame(self, items: Sequence[Item]) -> Frame:
        return Frame()


class UnnamedImages(OpenAIChat):
    def input_items(self, message: InputMessage) -> Iterable[Item]:
        for item in super().input_items(message):
            parts = [
                {"type": "text", "text": "?"} if part.get("text", "").startswith("[") else part
                for part in (item["content"] if isinstance(item["content"], list) else ())
            ]
            yield {**item, "content": parts or item["content"]}


class NoNotebook(OpenAIChat):
    def fields(self, context: Context, items: list[Item]) -> dict[str, Any]:
        return {"messages": [*self.text_items(context.system, "system"), *items]}


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (check_pairs, SameIds),
        (check_pairs, OneId),
        (check_pairs, SwappedResults),
        (check_pairs, ResultsOfTheUser),
        (check_pairs, WithoutIds),
        (check_texts, BlankText),
        (check_texts, BlankPart),
        (check_names, AnyName),
        (check_frame, NoFrame),
        (lambda format: check_images(format, *NOT_TEXT), UnnamedImages),
        (check_texts, NoNotebook),
        (check_readers, OtherField),
        (check_readers, OtherTools),
        (check_readers, UnknownRole),
    ],
)
def test_a_broken_format_is_refused(check: Callable[[Format], None], broken: type[Format]) -> None:
    with pytest.raises(Refused):
        check(broken())
