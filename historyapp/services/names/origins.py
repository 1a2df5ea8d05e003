"""Where the names in a step's action appeared before it, and which later actions used its results."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from historyapp.core import entries as core
from historyapp.core.amounts import amounts_in
from historyapp.core.lineage import Span
from historyapp.core.name_pages import GROUPS, Group, key_of
from historyapp.core.origins import (
    RESULT_NAMES,
    Match,
    NameKind,
    Origin,
    Role,
    best_lookup,
    calls_of,
    entry_texts,
    files_acted_on,
    kind_of,
    lookups,
    mentions_of,
    names_in,
    result_names,
)
from historyapp.core.text import preview
from historyapp.core.windows import Beginning
from historyapp.models.history import History
from historyapp.models.origins import (
    EntrySize,
    KeyPlaces,
    Spans,
    all_places,
    entry_sizes,
    first_actions,
    indexed_ranges,
    indexed_spans,
    key_places,
    received_positions,
)
from historyapp.models.short_entries import short_entries
from historyapp.models.sql import live_entries
from historyapp.services.recorded.requests import RecordedRequest, recorded_request

MAX_TOOL_CALLS = 20
"""The names of at most this many tool calls of a step are looked up."""
MAX_RESULTS = 5
"""At most this many entries with results of a step are compared with later actions."""
MAX_LINES = 30
MAX_PLACES = 50
MAX_ENTRY_TOKENS = 15_000
"""An entry with more tokens is not read to show one of its lines."""
MAX_TOKENS = 40_000
"""The maximum number of tokens of all entries that are read to show their lines."""
KeyGroup = tuple[int, Group]
"""The key of a name, and the group of a place within its entry."""


@dataclass(frozen=True, slots=True)
class NamePlace:
    """A place in the log, for display."""

    position: int
    step: int
    """The number of its step; for an entry between two steps, of the earlier step; 0 before the first
    step."""
    role: Role | None
    """None if the entry is too large to be read. Then ``line`` is None too and ``text`` is empty."""
    line: int | None = None
    text: str = ""
    """The line, up to 200 characters."""


@dataclass(frozen=True, slots=True)
class NameOrigin:
    """A name in the step's action and its origin."""

    name: str
    kind: NameKind
    call: int
    """The index of the first tool call that contains it."""
    origin: Origin
    match: Match | None
    first: NamePlace | None
    """Where it first appeared."""
    first_given: NamePlace | None
    """Where the agent first received it, if that is another place."""
    last_position: int | None
    """Where it last appeared before the step."""
    in_view: bool | None
    """Whether the model still saw it at this step; None if it appeared nowhere, or this is unknown."""
    is_acted_on: bool
    """Whether the tool call needs a file of this name to exist."""


class UsedLine(NamedTuple):
    """A line of the step's results that contains a name that a later action used."""

    part: int
    line: int
    names: list[tuple[str, int]]
    """The names, each with the number of the first later step whose action contains it."""
    text: str


@dataclass(frozen=True, slots=True)
class StepOrigins:
    """The origins of the names in a step's action, and the uses of its results."""

    number: int
    names: list[NameOrigin]
    used: list[UsedLine]
    is_used: bool | None
    """Whether a later action contains a name from the results; None if the results have no names, or too many
    to look up."""
    window: Beginning
    """Why the recorded request began where it did."""
    compacted_at: int | None
    """The position at which the context was last compacted or cleared before the step."""
    is_complete: bool
    """Whether all entries before the step are in the index."""
    is_indexed: bool
    """Whether all entries are in the index."""


def origins_of(history: History, number: int) -> StepOrigins:
    """The origins of a step's names. The number of queries does not depend on the session's length.

    Raises:
        NotFound: when there is no such live step.
    """
    row = history.row(history.resolve(number))
    entries = list(
        live_entries(
            history.lineage,
            ("model_output", "tool_results"),
            after=row.first_position - 1,
            before=row.last_position + 1,
            limit=1 + MAX_RESULTS,
        )
    )
    ranges = [(1, row.first_position - 1), (row.last_position + 1, history.lineage.last)]
    (before, is_complete), (after, is_indexed) = indexed_ranges(history.lineage, ranges)
    output = entries[0].body
    assert isinstance(output, core.ModelOutput)
    tool_calls = calls_of(output)[:MAX_TOOL_CALLS]
    first_calls: dict[str, int] = {}
    for index, tool_call in enumerate(tool_calls):
        for name in names_in(tool_call):
            first_calls.setdefault(name, index)
    recorded = recorded_request(history, row.number, entries[0])
    uses = _ResultUses(after, entries[1:])
    search = _NameSearch(history, before, list(first_calls), recorded, uses.positions)
    acted_on = {file for tool_call in tool_calls for file in files_acted_on(tool_call)}
    amounts = _amounts_of(tool_calls)
    names = [
        search.origin(name, index, is_complete=is_complete, is_acted_on=name in acted_on)
        for name, index in first_calls.items()
        if name not in amounts or search.places(name)
    ]
    used = uses.lines(search.steps)
    is_known = is_indexed and 0 < len(uses.keys) < RESULT_NAMES
    window = recorded.window
    return StepOrigins(
        number=row.number,
        names=names,
        used=used,
        is_used=True if used else False if is_known else None,
        window=window.begins,
        compacted_at=window.position if window.begins in ("compaction", "cleared") else None,
        is_complete=is_complete,
        is_indexed=is_complete and is_indexed,
    )


def _amounts_of(tool_calls: Sequence[core.ToolCall | core.UseTool]) -> set[str]:
    """The names that occur in these tool calls only as amounts."""
    amounts = [amounts_in(tool_call) for tool_call in tool_calls]
    names = [{*names_in(tool_call)} - own for tool_call, own in zip(tool_calls, amounts, strict=True)]
    return set[str]().union(*amounts).difference(*names)


class _ResultUses:
    """The names in a step's results, and the first later actions that contain them."""

    def __init__(self, spans: Spans, results: Sequence[core.Entry]) -> None:
        self._lines = [line for entry in results for line in result_names(entry.body)]
        self.keys = {key_of(name): name for line in self._lines for name in line.names}
        positions = first_actions(spans, self.keys)
        self._used = {self.keys[key]: position for key, position in positions.items()}
        self.positions = set(positions.values())

    def lines(self, steps: Mapping[int, int]) -> list[UsedLine]:
        """The lines with used names. ``steps``: the step numbers by position."""
        used = {name: steps[position] for name, position in self._used.items() if position in steps}
        used_lines = []
        for line in self._lines:
            names = [(name, used[name]) for name in line.names if name in used]
            if names:
                used_lines.append(UsedLine(line.part, line.line, names, preview(line.text)))
        return used_lines[:MAX_LINES]


class _NameSearch:
    """The places of some names before a step."""

    def __init__(
        self,
        history: History,
        spans: Spans,
        names: Sequence[str],
        recorded: RecordedRequest,
        more_positions: Collection[int],
    ) -> None:
        """``more_positions``: positions whose step numbers ``steps`` contains too."""
        self._spellings = {name: lookups(name) for name in names}
        keys = {
            key for spellings in self._spellings.values() for spelling in spellings for key in spelling.keys
        }
        self._key_places = key_places(spans, keys)
        earliest = {key: places.earliest for key, places in self._key_places.items()}
        self.best = {name: spelling for name in names if (spelling := best_lookup(name, earliest))}
        self._recorded = recorded
        self._seen = {row.position for row in recorded.window.rows}
        standing = (recorded.instruction, recorded.notebook)
        standing_positions = [entry.position for entry in standing if entry]
        standing_positions += [recorded.window.replaced_by] if recorded.window.replaced_by else []
        self._standing = received_positions(
            spans, {spelling.keys[0] for spelling in self.best.values()}, standing_positions
        )
        first_places = [
            (name, at) for name in self.best for at in (self.first(name), self.first_given(name)) if at
        ]
        last_positions = [at for name in self.best for at in self._last_positions(name)]
        positions = (
            {at for _, at in first_places}
            | (set(last_positions) if recorded.snapshot else set())
            | set(more_positions)
        )
        lineage = history.lineage
        owners = {at: session for at in positions if (session := lineage.session_at(at))}
        sizes = entry_sizes((session, at) for at, session in owners.items())
        self.steps = {at: size.step for at, size in sizes.items()}
        """The step numbers by position."""
        groups: dict[int, set[KeyGroup]] = defaultdict(set)
        for name, at in first_places:
            groups[at].add((self.best[name].keys[0], self._group(name, at)))
        self._lines = _lines({at: owners[at] for at in groups if at in owners}, sizes, groups)

    def origin(self, name: str, tool_call: int, *, is_complete: bool, is_acted_on: bool) -> NameOrigin:
        """The origin of a name. ``tool_call``: the index of the first tool call that contains it."""
        places = self.places(name)
        origin: Origin = "nowhere" if is_complete else "unknown"
        if places is not None:
            origin = "own" if places.first[0] is None else "given"
        return NameOrigin(
            name=name,
            kind=kind_of(name),
            call=tool_call,
            origin=origin,
            match=self.best[name].match if places else None,
            first=self.shown(name, self.first(name)),
            first_given=self.shown(name, self.first_given(name)),
            last_position=self.last(name),
            in_view=self.is_seen(name) if places else None,
            is_acted_on=is_acted_on,
        )

    def places(self, name: str) -> KeyPlaces | None:
        """The places of a name in its best spelling; None if there are none."""
        spelling = self.best.get(name)
        return self._key_places[spelling.keys[0]] if spelling else None

    def first(self, name: str) -> int | None:
        """The first position of a name."""
        places = self.places(name)
        return places.earliest if places else None

    def first_given(self, name: str) -> int | None:
        """The position at which the agent first received a name, if that is not its first position."""
        places = self.places(name)
        return places.first[0] if places and places.first[0] != places.earliest else None

    def last(self, name: str) -> int | None:
        """The last position of a name, in any spelling."""
        return max(self._last_positions(name), default=None)

    def is_seen(self, name: str) -> bool | None:
        """Whether one of a name's places was in the request; None if this is unknown."""
        if self._standing.get(self.best[name].keys[0]):
            return True
        if self._recorded.snapshot is None:
            return any(at in self._seen for at in self._last_positions(name))
        return self._is_in_snapshot(self._last_positions(name))

    def shown(self, name: str, position: int | None) -> NamePlace | None:
        """A place of a name, for display."""
        if position is None:
            return None
        place = NamePlace(position, self.steps.get(position, 0), None)
        key_group = self.best[name].keys[0], self._group(name, position)
        return _with_line(place, self._lines.get(position, {}).get(key_group))

    def _group(self, name: str, position: int) -> Group:
        places = self._key_places[self.best[name].keys[0]]
        return GROUPS[places.first.index(position)]

    def _last_positions(self, name: str) -> list[int]:
        """The last positions of a name in each group. Its parts count only if no other spelling appears."""
        spellings = [
            spelling
            for spelling in self._spellings[name]
            if all(key in self._key_places for key in spelling.keys)
        ]
        exact = [spelling for spelling in spellings if spelling.match != "parts"] or spellings
        return [at for spelling in exact for at in self._key_places[spelling.keys[0]].last if at]

    def _is_in_snapshot(self, positions: Iterable[int]) -> bool | None:
        """Whether the recorded snapshot contains one of these entries in full; None if it contains them only
        in another form."""
        assert self._recorded.snapshot is not None
        is_unknown = False
        for position in positions:
            step = self.steps.get(position, 0)
            for segment in self._recorded.snapshot.manifest.get("segments", ()):
                first = segment.get("step") or 0
                if segment.get("position") != position and not (
                    first and first <= step <= (segment.get("last_step") or first)
                ):
                    continue
                if segment.get("form", "full") == "full":
                    return True
                is_unknown = True
        return None if is_unknown else False


def _with_line(place: NamePlace, line: tuple[Role, int, str] | None) -> NamePlace:
    """The place with its role, line and text, if known."""
    return replace(place, role=line[0], line=line[1], text=line[2]) if line else place


def places_of(history: History, number: int, name: str) -> list[NamePlace]:
    """The newest places of a name in the live history up to a step, at most ``MAX_PLACES``, oldest first."""
    row = history.row(history.resolve(number))
    spans, _ = indexed_spans(history.lineage, 1, row.last_position)
    by_position: dict[int, tuple[str, KeyGroup]] = {}
    for spelling in lookups(name):
        if spelling.match != "parts":
            for session, position, group in all_places(spans, spelling.keys[0], MAX_PLACES):
                by_position.setdefault(position, (session, (spelling.keys[0], group)))
    newest = sorted(by_position)[-MAX_PLACES:]
    owners = {position: by_position[position][0] for position in newest}
    sizes = entry_sizes((session, position) for position, session in owners.items())
    lines = _lines(owners, sizes, {position: {by_position[position][1]} for position in newest})
    return [
        _with_line(
            NamePlace(position, sizes[position].step if position in sizes else 0, None),
            lines.get(position, {}).get(by_position[position][1]),
        )
        for position in newest
    ]


def _lines(
    owners: Mapping[int, str], sizes: Mapping[int, EntrySize], groups: Mapping[int, Collection[KeyGroup]]
) -> dict[int, dict[KeyGroup, tuple[Role, int, str]]]:
    """The role, line and text of places, by position. Reads the smallest entries, up to ``MAX_TOKENS`` and
    :data:`historyapp.models.short_entries.MAX_SIZE`.

    Args:
        owners: the sessions of the positions.
    """
    remaining, spans = MAX_TOKENS, []
    for position in sorted((at for at in owners if at in sizes), key=lambda at: sizes[at].tokens):
        remaining -= sizes[position].tokens
        if remaining >= 0 and sizes[position].tokens <= MAX_ENTRY_TOKENS:
            spans.append(Span(owners[position], position, position))
    lines: dict[int, dict[KeyGroup, tuple[Role, int, str]]] = {}
    for entry in short_entries(spans, with_metadata=True):
        body = core.load_body(entry.kind, entry.body)
        texts = {(text.role, text.part): text.text for text in entry_texts(body, entry.metadata)}
        for mention in mentions_of(body, entry.metadata).mentions:
            key_group = mention.key, mention.group
            if key_group in groups[entry.position]:
                line = texts[mention.role, mention.part].split("\n")[mention.line - 1]
                lines.setdefault(entry.position, {})[key_group] = mention.role, mention.line, preview(line)
    return lines
