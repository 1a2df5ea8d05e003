"""A name in an action is found in earlier entries, in the same or another spelling."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.name_origins import measure
from historyapp.core.entries import DebugLog, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.name_pages import HASH_BITS, key_of
from historyapp.core.origins import (
    MAX_CHARACTERS,
    MAX_KEYS,
    RESULT_NAMES,
    best_lookup,
    files_acted_on,
    kind_of,
    lookups,
    mentions_of,
    names_in,
    result_names,
)
from tests.shared import SHARED, needs


def result(text: Any) -> ToolResults:
    return ToolResults(results=(ToolResult(status="success", outputs=text),))


def match(name: str, text: str) -> str | None:
    """How a result with this text matches the name."""
    keys = {mention.key for mention in mentions_of(result(text)).mentions}
    return next((way.match for way in lookups(name) if all(key in keys for key in way.keys)), None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("src/app.py", "path"),
        ("~/notes", "path"),
        ("https://example.org/a", "url"),
        ("1207", "number"),
        ("2024-05-30", "number"),
        ("1d7b2ce", "hash"),
        ("d56ab1db-8eb3-4036-a181-c153d7f27465", "hash"),
        ("parse_text", "name"),
        ("app.py", "name"),
    ],
)
def test_each_name_has_a_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("src/app/parser.py", "see src/app/parser.py:41", "whole"),
        ("/repo/src/app/parser.py", "see src/app/parser.py", "end"),
        ("src/app/parser.py", "see /repo/src/app/parser.py", "end"),
        ("/repo/src/app", "see /repo/src/app/parser.py", "end"),
        ("src/app/parser.py", "src/app/tokens.py\nparser.py", "parts"),
        ("src/app/tests", "src/app/tokens.py\ntests/\n", "parts"),
        ("parser.py", "see src/app/parser.py", "whole"),
        ("/testbed", "in /testbed/setup.py", "whole"),
        ("C:/repo/app.py", r"in C:\repo\app.py", "end"),
        ("1d7b2ce", "commit 1d7b2ce90f", "end"),
        ("1d7b2ce", "commit 1d7b2ce", "whole"),
        ("1d7b2ce90f", "a/x@1d7b2ce90f", "whole"),
        ("contact.playerClass", "let playerClass = 1", "end"),
        ("https://example.org/docs/start", "GET /docs/start", "parts"),
        ("https://github.com/me/tool.git", "uses me/tool here", "parts"),
        ("/repo/README.md", "./src/app.py\n./README.md", "parts"),
        ("/repo/src/parser.py", "change parser.py please", "parts"),
        ("src/app/parser.py", "src/app/tokens.py\n  3: from .parser import parse", "parts"),
        ("src/app/parser.py", "from app.parser import parse", "parts"),
        ("src/app/parser.py", "import app.parser as parser", "parts"),
        ("src/app/parser.py", "import app.parser  # for later", "parts"),
        ("src/app/parser.py", "import app.parser, os", "parts"),
        ("src/app/parser.py", "    12\timport app.parser as parser", "parts"),
        ("src/app/parser.py", "a.py:12:import app.parser", "parts"),
        ("src/app/parser.py", "+    import app.parser;", "parts"),
        ("src/app/parser.py", "from app import lexer as words, parser", "parts"),
        ("src/app/parser.py", "from app import (parser,", "parts"),
        ("src/app/parser.py", "src/app/tokens.py\nfrom . import parser", "parts"),
        ("src/app/parse/__init__.py", "src/app/a.py\nfrom .parse import parse", "parts"),
        ("web/lib/local.store.ts", "web/lib/index.ts\nexport * from './local.store';", "parts"),
        ("web/lib/store.ts", "web/lib/a.ts\nimport { x } from './store.js'", "parts"),
        ("web/lib/store.js", "web/lib/a.js\nconst store = require('./store')", "parts"),
        ("web/lib/store/index.js", "web/lib/a.js\nconst store = await import('./store')", "parts"),
        ("src/app/lexer.rs", "src/app/main.rs\nmod lexer;", "parts"),
        ("src/app/lexer.py", "see src/app/parser.py", None),
        ("other/parser.py", "see src/app/parser.py", None),
        ("other/parser.py", "src/app/tokens.py\nfrom .parser import parse", None),
        ("src/app/parser.py", "src/app/tokens.py\nthe parser, from app", None),
        ("src/app/__init__.py", "src/app/tokens.py\nfrom . import parser", None),
        ("src/app/parser.py", "src/app/tokens.py\nPlease import parser settings first", None),
        ("src/app/data.py", "src/app/tokens.py: we import data, then plot", None),
        ("src/app/the.py", "src/app/tokens.py\nimport the file", None),
        ("web/lib/store.js", "web/lib/a.js\nimport store from 'other-package'", None),
        ("https://example.org/docs?page=2", "https://example.org/docs", None),
        ("http://localhost:3000", "http://localhost:4000", None),
        ("d56ab1db-8eb3-4036-a181-c153d7f27465", "d56ab1db-8eb3-4036-a181-000000000000", None),
        ("1207", "12070", None),
    ],
)
def test_a_name_is_found_in_its_spellings(name: str, text: str, expected: str | None) -> None:
    assert match(name, text) == expected


@pytest.mark.parametrize(
    ("name", "whole_at", "end_at", "expected"),
    [("/repo/app.py", 7, 3, "end"), ("/repo/app.py", 3, 7, "whole"), ("1d7b2ce90f", 7, 3, "whole")],
)
def test_a_path_has_its_earliest_spelling_and_other_names_the_exact_one(
    name: str, whole_at: int, end_at: int, expected: str
) -> None:
    whole, end = lookups(name)[:2]
    lookup = best_lookup(name, {whole.keys[0]: whole_at, end.keys[0]: end_at})
    assert lookup is not None
    assert lookup.match == expected


def test_parts_of_a_name_count_only_if_all_are_known_and_no_spelling_is() -> None:
    whole, _, parts, *_ = lookups("src/app/parser.py")
    firsts = dict.fromkeys(parts.keys, 2)
    assert best_lookup("src/app/parser.py", firsts) == parts
    assert best_lookup("src/app/parser.py", {**firsts, whole.keys[0]: 9}) == whole
    assert best_lookup("src/app/parser.py", {parts.keys[0]: 2}) is None


def test_a_program_that_a_shell_did_not_find_is_no_part_of_a_path() -> None:
    places = "the folders /opt/homebrew/bin and /usr/local/bin\n"
    assert match("/opt/homebrew/bin/gh", f"{places}gh") == "parts"
    assert match("/opt/homebrew/bin/gh", f"{places}zsh:1: command not found: gh") is None


def test_a_mention_has_its_text_and_line() -> None:
    body = ToolResults(
        results=(
            ToolResult(status="success", outputs="nothing"),
            ToolResult(status="success", outputs={"files": ["first\nsee parse_text", "parse_text"]}),
        )
    )
    (mention,) = [mention for mention in mentions_of(body).mentions if mention.key == key_of("parse_text")]
    assert (mention.role, mention.part, mention.line) == ("result", 1, 2)


def test_texts_of_the_agent_and_its_actions_have_different_roles() -> None:
    calls = (ToolCall(id="1", name="read", arguments={"path": "app.py"}),)
    body = ModelOutput(thoughts="look at parse_text", text="see app.py", tool_calls=calls)
    roles = [(mention.key, mention.role) for mention in mentions_of(body).mentions]
    assert [role for key, role in roles if key == key_of("parse_text")] == ["thought"]
    assert [role for key, role in roles if key == key_of("app.py")] == ["text", "action"]


def test_devices_are_no_names_of_an_action() -> None:
    command = "make >/dev/null 2>/dev/stderr </dev/fd/3; cat /dev/urandom /dev/shm/a.py /dev/nullable"
    call = ToolCall(id="a", name="bash", arguments={"command": command})
    assert names_in(call) == ["/dev/shm/a.py", "/dev/nullable"]


def test_only_the_beginning_of_a_very_long_entry_is_read() -> None:
    assert not mentions_of(result("x " * MAX_CHARACTERS + "late_name")).is_complete
    many = mentions_of(result("\n".join(f"name_{n}" for n in range(MAX_KEYS + 5))))
    assert (len(many.mentions), many.is_complete) == (MAX_KEYS, False)


@pytest.mark.parametrize(
    ("body", "metadata"),
    [
        (ModelInput(channel="compaction", content="see src/app.py"), {}),
        (
            DebugLog(category="compaction", message=""),
            {"replacement_history": [{"type": "message", "content": "see src/app.py"}]},
        ),
        (
            DebugLog(category="condensation", message="see src/app.py"),
            {"source": {"condensed": {"summarised": True}}},
        ),
    ],
)
def test_text_that_replaced_the_history_is_a_summary(body: Any, metadata: Any) -> None:
    roles = {mention.key: mention.role for mention in mentions_of(body, metadata).mentions}
    assert roles[key_of("src/app.py")] == "summary"


def test_other_notes_have_no_names() -> None:
    assert mentions_of(DebugLog(category="note", message="see src/app.py"), {"source": {}}).mentions == []


@pytest.mark.parametrize(
    ("name", "arguments", "files"),
    [
        ("Read", {"file_path": "src/app.py"}, ["src/app.py"]),
        ("Edit", {"file_path": "app.py", "old_string": "a", "new_string": "b.py"}, ["app.py"]),
        ("Write", {"file_path": "new.py", "content": "see other.py"}, []),
        ("Bash", {"command": "cat src/app.py > out.txt"}, ["src/app.py"]),
        ("Bash", {"command": "mkdir -p src/new"}, []),
        ("Bash", {"command": "cd /repo && cp a/b.py a/b.py.bak; rm c.py"}, ["/repo", "a/b.py"]),
        ("Bash", {"command": "go build -o out.exe . && ls out.exe"}, []),
        ("Bash", {"command": "git diff origin/main...HEAD -- .github/ci.yml /dev/null"}, ["github/ci.yml"]),
        ("Bash", {"command": "python -c 'td_field.serialize(1)' setup.cfg"}, ["setup.cfg"]),
        ("Bash", {"command": f"cat {'x' * 180}.py src/{'y' * 40}.py"}, [f"{'x' * 180}.py"]),
        ("shell", {"command": "create reproduce.py"}, []),
        ("Bash", {"command": "find . -name 'App.tsx' | head -5"}, []),
        ("Bash", {"command": "rg 'a|b.entire|c' docs/a.md"}, ["docs/a.md"]),
        ("Bash", {"command": "cat > test.py << 'EOF'\nimport a.b\nEOF"}, []),
        ("WebFetch", {"url": "https://example.org/a"}, []),
    ],
)
def test_only_files_that_must_exist_count_as_used(name: str, arguments: Any, files: list[str]) -> None:
    assert files_acted_on(ToolCall(id="1", name=name, arguments=arguments)) == files


def test_lines_of_results_hold_their_new_names_without_numbers() -> None:
    lines = result_names(result("src/a.py\n4711\nsrc/a.py and b_1"))
    assert [(line.line, line.names) for line in lines] == [(1, ["src/a.py"]), (3, ["b_1"])]
    many = result_names(result("\n".join(f"name_{n}" for n in range(RESULT_NAMES + 5))))
    assert len(many) == RESULT_NAMES


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_text_gives_keys_that_a_database_holds(text: str) -> None:
    for mention in mentions_of(result(text)).mentions:
        assert 0 <= mention.key < 2**HASH_BITS
        assert mention.line >= 1


@pytest.mark.thorough
@needs("corpus")
def test_origins_are_right_for_the_names_that_were_held_back() -> None:
    """Fails too if an importer counts entries differently, so that the labels name other ones."""
    counts = measure(SHARED / "corpus", "held back").values()
    placed, right, appeared = (
        sum(getattr(count, name) for count in counts) for name in ("placed", "placed_right", "appeared")
    )
    assert right / placed >= 0.95
    assert right / appeared >= 0.95
