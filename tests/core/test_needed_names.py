"""Names that a run needed later, and whether summaries keep them."""

import pytest

from historyapp.core.entries import Entry, ModelOutput, ToolResult, ToolResults, UseTool
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.evaluation import name_search
from historyapp.core.needed_names import NeededName, kept_names, needed_names
from tests.core.entries import entry


def run(*steps: tuple[str, str]) -> list[Episode]:
    """Steps, each with the path that it reads and the result."""
    entries: list[Entry] = []
    for number, (path, outputs) in enumerate(steps):
        output = ModelOutput(use_tool=UseTool(name="read", arguments={"path": path}))
        result = ToolResults(results=(ToolResult(status="success", outputs=outputs),))
        entries += [entry(2 * number + 1, output), entry(2 * number + 2, result)]
    return list(group_episodes(entries))


STEPS = run(("list", "see src/app.py and src/old.py"), ("src/app.py", "def parse_all"), ("src/app.py", ""))


def test_a_name_is_needed_if_a_later_step_writes_it() -> None:
    (name,) = needed_names(STEPS[:1], STEPS[1:])
    assert name == ("src/app.py", 1, 2)


def test_a_name_that_no_result_had_is_not_needed() -> None:
    assert needed_names(STEPS[1:2], STEPS[2:]) == []


def test_a_summary_keeps_a_name_as_a_whole_word_alone() -> None:
    names = needed_names(STEPS[:1], STEPS[1:])
    assert kept_names(names, ["It is in src/app.py."]) == names
    assert kept_names(names, ["It is in src/app.pyc or xsrc/app.py"]) == []


def test_all_names_are_found_in_one_pass_through_the_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    find, searched = name_search.NameSearch.find, list[str]()

    def count(search: name_search.NameSearch, text: str, limit: int) -> dict[str, list[int]]:
        searched.append(text)
        return find(search, text, limit)

    monkeypatch.setattr(name_search.NameSearch, "find", count)
    names = [NeededName("a_" * length + "a", 1, 2) for length in range(1, 60)]
    assert kept_names(names, ["a_" * 20_000, "a_a"]) == names[:1]
    assert len(searched) == 1
