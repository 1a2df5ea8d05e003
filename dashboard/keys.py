"""The keys of a run and of its overview: tables from which the help and the documentation are made."""

from typing import NamedTuple

from dashboard.jumps import JUMPS
from dashboard.location import Location
from historyapp.models.visibility import Visibility


class Key(NamedTuple):
    """A key and its action."""

    key: str
    """The value of ``KeyboardEvent.key``. No key needs AltGr on a common layout, or a modifier."""
    action: str
    """The name of the action in the scripts, or one of :data:`dashboard.jumps.JUMPS`."""
    address: str = ""
    """The page that the key opens; empty if a script does something else."""

    @property
    def shown(self) -> str:
        """The label of the key."""
        return _SHOWN.get(self.key, self.key)

    @property
    def opens_run(self) -> bool:
        """Whether the key of an overview opens the run."""
        return self.action in ("first", "last", "first-failure", "find")

    @property
    def is_jump(self) -> bool:
        return self.action in JUMPS


class KeyRow(NamedTuple):
    """Keys that are explained together."""

    keys: tuple[Key, ...]
    does: str


def _row(does: str, **actions: str) -> KeyRow:
    return KeyRow(tuple(Key(_NAMED.get(key, key), action) for key, action in actions.items()), does)


_SHOWN = {" ": "space", "ArrowLeft": "←", "ArrowRight": "→"}
_NAMED = {"space": " ", "slash": "/", "question": "?", "less": "<", "greater": ">"}
KEYS = (
    _row("previous step, next step", ArrowLeft="back", ArrowRight="forward"),
    _row("next step, previous step", j="forward", k="back"),
    _row("next and previous error or likely failure", e="next-error", E="previous-error"),
    _row("next and previous input from a person", u="next-turn", U="previous-turn"),
    _row("next and previous interruption by the person", i="next-interruption", I="previous-interruption"),
    _row("next and previous edit of the same file", f="next-edit", F="previous-edit"),
    _row("next and previous compaction by the agent", c="next-compaction", C="previous-compaction"),
    _row("next and previous take", t="next-take", T="previous-take"),
    _row("first step, newest step", g="first", G="last"),
    _row("play or pause", space="play"),
    _row("play slower, faster", less="slower", greater="faster"),
    _row("bookmark the step, or remove its bookmark", b="bookmark"),
    _row("find in this session", slash="find"),
    _row("next and previous step with the text", n="find-next", N="find-previous"),
    _row("show this list", question="help"),
)
OVERVIEW_KEYS = (
    _row("next and previous line of the lists; Enter opens its step", j="next-line", k="previous-line"),
    _row("the first step that failed or likely failed, otherwise that of a sub-agent", e="first-failure"),
    _row("first step, newest step", g="first", G="last"),
    _row("find in the run", slash="find"),
    _row("show this list", question="help"),
)
"""All but the first and the last row open the run."""
FIND_FIELD = "find-text"
"""The ID of the field of the search in the run. An address with it as its fragment focuses the field."""


def overview_keys(location: Location, first_failure: str) -> tuple[KeyRow, ...]:
    """The keys of an overview, without those that lead to no step.

    Args:
        first_failure: its address; empty without one.
    """
    addresses = {"find": f"{location.address}#{FIND_FIELD}"}
    addresses |= {"first": location.address_of(1), "last": location.address_of(location.steps)}
    addresses |= {"first-failure": first_failure} if first_failure else {}
    rows = []
    for row in OVERVIEW_KEYS:
        keys = tuple(key._replace(address=addresses.get(key.action, "")) for key in row.keys)
        if not keys[0].opens_run or (location.steps and keys[0].address):
            rows.append(KeyRow(keys, row.does))
    return tuple(rows)


def keys_of(visible: Visibility) -> tuple[KeyRow, ...]:
    """The keys of a page. A share link has no bookmarks, and may hide takes."""
    if not visible.is_shared:
        return KEYS
    dropped = {"bookmark"} | (set() if visible.takes else {"next-take", "previous-take"})
    return tuple(row for row in KEYS if row.keys[0].action not in dropped)
