import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import ModelInput
from historyapp.core.importers.chat_messages import call_in_text
from historyapp.core.importers.claude_code_session import command_line
from historyapp.core.quoting import quoted
from historyapp.core.scanning import enclosed, without_enclosed
from historyapp.core.strategies.user_words import split_words

_OPENING, _CLOSING = re.compile("<a>"), re.compile(r"</a>\s*")
_BOTH = re.compile(r"<a>(.*?)</a>\s*", re.DOTALL)
_TEXTS = st.lists(st.sampled_from(["<a>", "</a>", "x", " ", "\n", "<", "é"]), max_size=12).map("".join)


@given(_TEXTS)
def test_the_parts_are_those_that_one_pattern_finds(text: str) -> None:
    parts = list(enclosed(text, _OPENING, _CLOSING))
    assert [part.inside for part in parts] == _BOTH.findall(text)
    assert without_enclosed(text, parts) == _BOTH.sub("", text)


@pytest.mark.parametrize("mark", ["<a>", "</a>", "<a></a>", "<a> </a>\n"])
def test_many_marks_take_linear_time(mark: str) -> None:
    text = mark * (1_000_000 // len(mark))
    started = time.process_time()
    without_enclosed(text, list(enclosed(text, _OPENING, _CLOSING)))
    assert time.process_time() - started < 5


def test_a_call_in_text_has_the_parameters_that_are_closed() -> None:
    written = "So:\n<function=run>\n<parameter=a>\n1\n</parameter><parameter=b>2</parameter><parameter=c>3"
    parsed_call = call_in_text(written)
    assert parsed_call is not None
    assert (parsed_call[0].name, parsed_call[0].arguments, parsed_call[1]) == (
        "run",
        {"a": "1", "b": "2"},
        "So:",
    )


def test_a_command_line_is_the_command_and_its_arguments() -> None:
    words = "<command-name>/init</command-name>\n<command-args>a b</command-args>"
    assert command_line(ModelInput(content=words)) == "/init a b"
    assert command_line(ModelInput(content="<command-name>/init</command-name>")) == "/init"
    assert command_line(ModelInput(content="<command-name>/init")) == ""


def test_200_kb_of_open_marks_are_read_quickly() -> None:
    """Each of these took 20 to 40 seconds with a backtracking pattern."""
    started = time.process_time()
    assert call_in_text("<function=a>" + "<parameter=a>" * 16_000) is not None
    assert call_in_text("<function=" * 20_000) is None
    assert command_line(ModelInput(content="<command-name>" * 15_000)) == ""
    assert quoted("<" + "\t" * 200_000, "task").endswith(">")
    assert len(split_words('The user said: "a"\n' * 10_000)[0]) == 10_000
    assert time.process_time() - started < 5
