"""Where the identifiers of an action appeared before the action.

Each text of an entry is searched once for identifiers. An identifier is stored under several keys, so that
it is also found in another spelling: a file by its last two parts, a short hash by its beginning.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from historyapp.core.call_subjects import call_subject
from historyapp.core.content import plain_text
from historyapp.core.entries import (
    Body,
    DebugLog,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
    ToolResults,
    UseTool,
    text_of,
)
from historyapp.core.identifiers import identifiers, is_device, new_identifiers, texts_in
from historyapp.core.json import listing, mapping
from historyapp.core.name_pages import Group, key_of

VERSION = 5
"""The version of the rules for names and keys. Indexes of another version are not read but rebuilt."""
NameKind = Literal["path", "url", "hash", "number", "name"]
Role = Literal["input", "instruction", "notebook", "summary", "result", "thought", "text", "action"]
GIVEN: tuple[Role, ...] = ("input", "instruction", "notebook", "summary", "result")
"""The roles of text that the agent was given. The other roles are text that it wrote."""
Match = Literal["whole", "end", "parts"]
"""How a name matched: the exact text, its end, or its last parts separately."""
Origin = Literal["given", "own", "nowhere", "unknown"]
"""Where a name of an action comes from. Given: a text that the agent was given contains it. Own: only the
agent's own earlier text contains it. Unknown: some entries before the step have not been read."""

MAX_CHARACTERS = 1_000_000
"""The maximum number of characters of an entry that are read for names."""
MAX_KEYS = 10_000
"""The maximum number of keys of an entry."""
NAMES_OF_ACTION = 60
"""The maximum number of names of an action that are looked up."""
RESULT_NAMES = 300
"""The maximum number of names of a step's results that are compared with later actions."""
_NUMBER = re.compile(r"[\d.,:+-]+")
_HASH = re.compile(r"(?=.*\d)[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX_DIGITS = 7
_FILE_NAME = re.compile(r"[\w.@+~-]*\.[A-Za-z]\w{0,7}")
_NO_PROGRAM = "command not found: "
"""What zsh writes before the name of a program that does not exist: the name is no file that was seen."""
_LAST_WORD = re.compile(r"[\w.@+~-]{2,100}")
_IMPORT = re.compile(
    r"\bfrom ([.\w]{1,200}) import (?:\(?([\w, ]{1,200}))?"
    r"|(?:^|[\d:>|+\t\u2192-])[ \t]{0,80}import ([.\w]{1,200})(?: as \w{1,100})?(?= {0,4}(?:[;,#]|$))"
    r"|\b(?:from|import|require)[ (]{1,3}[\"']([^\"'\s]{1,200})[\"']"
    r"|\bmod (\w{1,200});"
)
"""A module that Python, JavaScript or Rust imports, and names that Python imports from it."""
_SCRIPT = re.compile(r"\.[cm]?[jt]sx?$")
_IMPORT_WORDS = ("import ", "import(", "require(", "from ", "mod ")
_MAX_IMPORT = 500
"""Characters of a line in which modules are looked for."""
_FOLDER_MODULES = ("__init__", "index", "mod")
"""The files that are imported by the name of their folder."""
_HEREDOC = "<<"
_ELLIPSIS = "…"
"""The last character of a command that is clipped."""
_SEPARATORS = (" && ", " || ", " | ", "; ")
_COMMANDS_WITHOUT_INPUT = ("create", "edit", "insert", "echo", "printf", "mkdir", "touch", "tee", "rm")
"""Commands that need none of the files that they name. The first three belong to SWE-agent's editor."""
_PATTERN_OPTIONS = ("-name", "-iname", "-e", "-g", "--glob", "--include", "--exclude", "--jq")
"""Options whose value is a pattern, not a file."""
_COPY_COMMANDS = ("cp", "mv", "ln")
_OUTPUT_OPTIONS = ("-o", "--output", ">", ">>", "1>", "2>", "&>")


class Text(NamedTuple):
    """A text of an entry."""

    role: Role
    part: int
    """The index of the tool call or of the result; otherwise 0."""
    text: str


class Mention(NamedTuple):
    """The first place of a key in an entry, in one group of texts."""

    key: int
    role: Role
    part: int
    line: int
    """From 1."""

    @property
    def group(self) -> Group:
        return group_of(self.role)


class EntryMentions(NamedTuple):
    """The mentions of an entry."""

    mentions: list[Mention]
    is_complete: bool
    """Whether the whole entry was read. Of a very long entry, only the beginning is read."""


class Lookup(NamedTuple):
    """One way to find a name."""

    match: Match
    keys: tuple[int, ...]
    """All of them must have been mentioned. The place of the first key is the place of the name."""


def kind_of(name: str) -> NameKind:
    """The kind of an identifier."""
    if "://" in name:
        return "url"
    if _NUMBER.fullmatch(name):
        return "number"
    if _HASH.fullmatch(name):
        return "hash"
    return "path" if "/" in name or name.startswith("~") else "name"


def group_of(role: Role) -> Group:
    """The group in which the index holds a role's texts."""
    return "given" if role in GIVEN else "action" if role == "action" else "own"


def lookups(name: str) -> list[Lookup]:
    """The ways to find a name, from the exact text to its parts."""
    kind, parts = kind_of(name), _parts(name)
    ways = [Lookup("whole", (key_of(_complete_name(name, parts)),))]
    if kind == "hash" and "-" not in name:
        ways.append(Lookup("end", (key_of(f"#{name[:_HEX_DIGITS]}"),)))
    elif kind == "url" and "?" not in name:
        if len(parts) > 1 or "." in parts[0]:
            ways.append(Lookup("parts", (key_of(_pair(parts) or parts[0]),)))
    elif kind == "path" and len(parts) > 1:
        ways.append(Lookup("end", (key_of(_pair(parts)),)))
        folder = _pair(parts[:-1]) or parts[-2]
        ways.append(Lookup("parts", (key_of(parts[-1]), key_of(folder))))
        ways += _import_lookups(parts)
        if _FILE_NAME.fullmatch(parts[-1]):
            ways.append(Lookup("parts", (key_of(f"./{parts[-1]}"),)))
    elif kind == "name" and (end := _attribute(name)):
        ways.append(Lookup("end", (key_of(end),)))
    return ways


def _import_lookups(parts: Sequence[str]) -> Iterator[Lookup]:
    """The ways to find a file by an import of its module, which has no extension."""
    module = parts[-1].rpartition(".")[0]
    modules = [*parts[:-1], module] if module and module not in _FOLDER_MODULES else parts[:-1]
    if len(modules) > 1 and module:
        yield Lookup("parts", (key_of(f"import {_pair(modules)}"),))
        folder = _pair(modules[:-1]) or modules[-2]
        yield Lookup("parts", (key_of(f"import {modules[-1]}"), key_of(folder)))


def best_lookup(name: str, first_positions: Mapping[int, int]) -> Lookup | None:
    """The first way by which a name is found, or None. For a path, the spelling that appeared first counts.

    Args:
        first_positions: where each known key first appeared.
    """
    possible = [way for way in lookups(name) if all(key in first_positions for key in way.keys)]
    exact = [way for way in possible if way.match != "parts"]
    if kind_of(name) == "path" and exact:
        return min(exact, key=lambda way: first_positions[way.keys[0]])
    return possible[0] if possible else None


def mention_texts(name: str) -> Iterator[str]:
    """The keys under which a name in a text is stored; see :func:`lookups`."""
    kind, parts = kind_of(name), _parts(name)
    yield _complete_name(name, parts)
    if kind == "hash" and "-" not in name:
        yield f"#{name[:_HEX_DIGITS]}"
    elif kind in ("url", "path"):
        for number in range(2, len(parts) + 1):
            yield _pair(parts[:number])
        yield from (part for part in re.split("[/@]", name) if _HASH.fullmatch(part))
        if parts:
            yield from (parts[-1], parts[0], f"/{parts[0]}")
            yield from filter(_is_identifier, [parts[-1].partition(".")[0]])
    elif kind == "name" and (end := _attribute(name)):
        yield end


def _complete_name(name: str, parts: Sequence[str]) -> str:
    """The name in the form that exact comparison uses: ``src/`` is ``src``."""
    return parts[0] if len(parts) == 1 and not ("://" in name or name.startswith("/")) else name


def _parts(name: str) -> list[str]:
    """The parts of a path, or of a URL without its scheme, port and query."""
    if "://" in name:
        address = re.split("[?#]", name.partition("://")[2], maxsplit=1)[0].removesuffix(".git")
        host, _, path = address.partition("/")
        return [host.partition(":")[0], *(part for part in path.split("/") if part)]
    return [part for part in name.split("/") if part and part not in (".", "~")]


def _pair(parts: Sequence[str]) -> str:
    """The last two parts; empty if there are fewer."""
    return f"//{parts[-2]}/{parts[-1]}" if len(parts) > 1 else ""


def _attribute(name: str) -> str:
    """The part after the last dot of a name such as ``contact.playerClass``; empty if it is no identifier."""
    end = name.rpartition(".")[2]
    return end if end != name and _is_identifier(end) else ""


def _is_identifier(word: str) -> bool:
    return len(word) > 3 and identifiers(word) == [word]


def entry_texts(body: Body, metadata: Mapping[str, Any] | None = None) -> Iterator[Text]:
    """The texts of an entry that a model reads or wrote."""
    match body:
        case ModelOutput():
            yield Text("thought", 0, body.thoughts_text)
            if body.text != body.thoughts_text:
                yield Text("text", 0, body.text)
            for index, tool_call in enumerate(calls_of(body)):
                yield Text("action", index, "\n".join(texts_in(tool_call.arguments)))
        case ToolResults():
            for index, result in enumerate(body.results):
                failure = result.error.message if result.error else None
                texts = [*texts_in(result.outputs), result.reason, result.feedback, failure]
                yield Text("result", index, "\n".join(filter(None, texts)))
            yield Text("result", len(body.results), body.overall or "")
        case ModelInput():
            yield Text("summary" if body.channel == "compaction" else "input", 0, text_of(body.content))
        case SystemInstruction():
            yield Text("instruction", 0, body.text)
        case MemoryNotebook():
            yield Text("notebook", 0, body.content)
        case DebugLog() if metadata:
            for index, text in enumerate(_replacing_texts(body, metadata)):
                yield Text("summary", index, text)
        case _:
            return


def _replacing_texts(body: DebugLog, metadata: Mapping[str, Any]) -> Iterator[str]:
    """The texts that replace the history from here on: items of Codex, or a summary of OpenHands."""
    for item in listing(metadata.get("replacement_history")):
        yield plain_text(mapping(item).get("content") or "")
    if mapping(mapping(metadata.get("source")).get("condensed")).get("summarised"):
        yield body.message


def calls_of(output: ModelOutput) -> Sequence[ToolCall | UseTool]:
    """The calls of an output, as its step shows them."""
    return output.tool_calls or ((output.use_tool,) if output.use_tool else ())


def mentions_of(body: Body, metadata: Mapping[str, Any] | None = None) -> EntryMentions:
    """The keys of all identifiers in an entry, each at its first place."""
    mentions: dict[tuple[Group, int], Mention] = {}
    characters_left, is_complete = MAX_CHARACTERS, True
    for role, part, text in entry_texts(body, metadata):
        is_complete = is_complete and len(text) <= characters_left
        lines = _with_slashes(text[:characters_left]).split("\n")
        characters_left -= min(characters_left, len(text))
        seen: set[str] = set()
        group = group_of(role)
        for number, (line, names) in enumerate(zip(lines, new_identifiers(lines), strict=True), start=1):
            words = [word for name in names for word in mention_texts(name)]
            words += _imported(line)
            if role == "result" and (last := _last_word(line)):
                words.append(last)
                names = [*names, last]
            words += [f"./{name}" for name in names if _FILE_NAME.fullmatch(name)]
            for word in words:
                if word not in seen:
                    seen.add(word)
                    key = key_of(word)
                    mentions.setdefault((group, key), Mention(key, role, part, number))
        if len(mentions) > MAX_KEYS:
            return EntryMentions(list(mentions.values())[:MAX_KEYS], is_complete=False)
    return EntryMentions(list(mentions.values()), is_complete)


def _imported(line: str) -> Iterator[str]:
    """The keys of the modules that a line of code imports."""
    if not any(word in line for word in _IMPORT_WORDS):
        return
    for package, names, module, path, submodule in _IMPORT.findall(line[:_MAX_IMPORT]):
        modules = [(package or module).replace(".", "/") or _SCRIPT.sub("", path) or submodule]
        modules += [f"{modules[0]}/{name.split()[0]}" for name in names.split(",") if name.strip()]
        for parts in ([part for part in each.split("/") if part.strip(".")] for each in modules):
            if parts:
                yield f"import {parts[-1]}"
                if pair := _pair(parts):
                    yield f"import {pair}"


def _with_slashes(text: str) -> str:
    """The text with slashes in Windows paths; elsewhere a backslash separates names."""
    return text.replace("\\", "/") if ":\\" in text else text


def _last_word(line: str) -> str:
    """The last word of a line. In a list of files it is a name, which may look like a plain word."""
    words = [] if _NO_PROGRAM in line else line.rstrip().rstrip("/*@").rsplit(None, 1)[-1:]
    word = words[0] if words else ""
    return word if _LAST_WORD.fullmatch(word) else ""


def names_in(tool_call: ToolCall | UseTool) -> list[str]:
    """The identifiers in the arguments of a tool call, at most :data:`NAMES_OF_ACTION`, without devices."""
    text = _with_slashes("\n".join(texts_in(tool_call.arguments))[:MAX_CHARACTERS])
    return [name for name in identifiers(text) if not is_device(name)][:NAMES_OF_ACTION]


def files_acted_on(tool_call: ToolCall | UseTool) -> list[str]:
    """The files that must exist for a tool call to work: those that it reads, edits or runs.

    Files that it creates and names in text that it writes are left out.
    """
    subject = call_subject(tool_call.name, tool_call.arguments)
    arguments = tool_call.arguments if isinstance(tool_call.arguments, Mapping) else {}
    if subject.kind == "edit" and not any(key.startswith(("old_", "edits")) for key in arguments):
        return []
    if subject.kind in ("read", "edit"):
        return [_with_slashes(file) for file in subject.files]
    if subject.kind != "shell":
        return []
    return _files_of_command(subject.target)


def _files_of_command(command: str) -> list[str]:
    """The files that a command needs. Code, patterns, ranges of commits and a clipped end are left out."""
    text = command.partition(_HEREDOC)[0]
    text = text[: text.rfind(" ") + 1] if text.endswith(_ELLIPSIS) else text
    for separator in _SEPARATORS:
        text = text.replace(separator, "\n")
    paths: dict[str, None] = {}
    written: set[str] = set()
    for words in (part.split() for part in text.split("\n")):
        if not words or words[0] in _COMMANDS_WITHOUT_INPUT:
            continue
        for index, word in enumerate(words):
            names = identifiers(_with_slashes(word))
            before = words[index - 1] if index else ""
            if len(names) != 1 or before in _PATTERN_OPTIONS or not _is_file_word(word, names[0]):
                continue
            is_target = words[0] in _COPY_COMMANDS and index == len(words) - 1
            if is_target or before in _OUTPUT_OPTIONS:
                written.add(names[0].rpartition("/")[2])
            elif names[0].rpartition("/")[2] not in written:
                paths[names[0]] = None
    return list(paths)


def _is_file_word(word: str, name: str) -> bool:
    """Whether a word of a command is only the name of a file."""
    plain = _with_slashes(word).strip("'\"`").strip("./-+@")
    if plain != name.strip("./-+@") or ".." in name or name.startswith("/dev/"):
        return False
    return word[:1] in "/~" or bool(_FILE_NAME.fullmatch(name.rpartition("/")[2]))


class ResultLine(NamedTuple):
    """A line of a result with names that no earlier line contains."""

    part: int
    line: int
    names: list[str]
    text: str


def result_names(body: Body) -> list[ResultLine]:
    """The lines of results with names that an action may use. Numbers are left out: they recur by chance.

    At most :data:`RESULT_NAMES` names are read.
    """
    lines_with_names: list[ResultLine] = []
    names_left = RESULT_NAMES
    for text in entry_texts(body) if isinstance(body, ToolResults) else ():
        lines = _with_slashes(text.text[:MAX_CHARACTERS]).split("\n")
        for number, (line, names) in enumerate(zip(lines, new_identifiers(lines), strict=True), start=1):
            line_names = [name for name in names if kind_of(name) != "number"][:names_left]
            names_left -= len(line_names)
            if line_names:
                lines_with_names.append(ResultLine(text.part, number, line_names, line))
            if names_left <= 0:
                return lines_with_names
    return lines_with_names
