"""Numbers of a tool call that need no origin."""

from typing import Any

import pytest

from historyapp.core.amounts import amounts_in
from historyapp.core.entries import ToolCall


@pytest.mark.parametrize(
    ("arguments", "amounts"),
    [
        ({"cmd": "make", "yield_time_ms": 1000, "max_output_tokens": 20000}, {"1000", "20000"}),
        ({"cmd": "sed -n '100,240p' src/app.py"}, {"100", "240p"}),
        ({"cmd": "sed -n -e '100,240p;300,320p' a.py | head -n 120"}, {"100", "240p", "300", "320p", "120"}),
        ({"cmd": "tail -n +400 a.py; head -200 b.py; tail -300 c.py"}, {"400", "200", "300"}),
        ({"script": 'exec({"cmd":"ls 4711","yield_time_ms":12000})'}, {"12000"}),
        ({"limits": [{"lines": 500}, 600]}, {"500", "600"}),
        ({"pull_number": 4711, "issueNumber": 4712, "id": 4713, "ids": [4714]}, set()),
        ({"cmd": "gh pr view 4711 && sed -i 's/100/200/' a.py"}, set()),
        ({"cmd": "kill 1000", "timeout": 1000}, set()),
        ({"text": "1000", "date": "2024-05-21", "is_new": True}, set()),
        ({"cmd": "sed -n 300px a.py; head -500k b"}, set()),
        (None, set()),
    ],
)
def test_numbers_of_options_and_ranges_of_lines_are_amounts(arguments: Any, amounts: set[str]) -> None:
    assert amounts_in(ToolCall(id="1", name="exec_command", arguments=arguments)) == amounts
