"""Makes the zstd dictionary for bodies of entries and excerpts of steps, from Python's standard library.

``historyapp/models/texts.zdict`` was made by it, with Python 3.11. Rows refer to a dictionary by its number,
so a new one needs a new number and a file of its own.
"""

import random
import sys
import sysconfig
from pathlib import Path
from typing import Any

from zstandard import train_dictionary

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.excerpts import begin_excerpt, continue_excerpt
from historyapp.core.json import dump_json
from historyapp.core.prepared import prepare
from historyapp.core.results import returned_text

NUMBER = 40_001
SIZE = 8192
"""Four times as many bytes make rows 1 % smaller."""
SAMPLES = 3000
TOOLS = ("bash", "read_file", "edit", "search", "str_replace_editor")
LEFT_OUT = ("/test", "site-packages", "idlelib")


def main(path: str) -> None:
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted([*folder.glob("*.py"), *folder.glob("[a-z]*/*.py")])
    names = [str(file) for file in files if not any(part in str(file) for part in LEFT_OUT)]
    texts = [text for text in (Path(name).read_text(errors="replace") for name in names) if len(text) > 4000]
    chance = random.Random(1)
    samples = [sample for _ in range(SAMPLES) for sample in _step(chance, texts, names)]
    Path(path).write_bytes(train_dictionary(SIZE, samples, dict_id=NUMBER).as_bytes())


def _step(chance: random.Random, texts: list[str], names: list[str]) -> list[bytes]:
    """An output, its results and the excerpt of both, as they are compressed."""

    def cut(minimum: int, maximum: int) -> str:
        text, length = chance.choice(texts), chance.randrange(minimum, maximum)
        start = chance.randrange(len(text) - maximum + 1)
        return text[start : start + length]

    tool, file = chance.choice(TOOLS), chance.choice(names)[-30:]
    arguments: dict[str, Any] = chance.choice(
        [
            {"command": cut(20, 400)},
            {"path": f"/src/{file}", "query": cut(280, 281)},
            {"file_path": f"/home/{file}", "old_string": cut(200, 201), "new_string": cut(200, 201)},
        ]
    )
    id = f"call_{chance.randrange(1 << 60):x}" if chance.random() < 0.5 else None
    if id:
        output = ModelOutput(text=cut(50, 600), tool_calls=(ToolCall(id=id, name=tool, arguments=arguments),))
    else:
        output = ModelOutput(thoughts=cut(100, 800), use_tool=UseTool(name=tool, arguments=arguments))
    lines = cut(200, 4000)
    if chance.random() < 0.4:
        numbered = enumerate(lines.split("\n"), chance.randrange(1, 400))
        lines = "\n".join(f"{number:6d}\t{line}" for number, line in numbered)
    result = ToolResult(tool_call_id=id, tool_name=tool, status="success", outputs=lines)
    results = ToolResults(results=(result,))
    first, second = prepare(EntryDraft(output)), prepare(EntryDraft(results))
    texts = [returned_text(result) for result in results.results]
    excerpt = continue_excerpt(begin_excerpt(output, first.tokens), texts, second.tokens)
    return [text.encode() for text in (first.body, second.body, dump_json(excerpt.dump()))]


if __name__ == "__main__":
    main(sys.argv[1])
