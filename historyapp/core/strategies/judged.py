"""What the three texts of a judged step tell: analysis, execution and supervision (SEMANTICS C)."""

import json
import re
from collections.abc import Mapping
from typing import Any

from historyapp.core.content import plain_text
from historyapp.core.episodes import Episode
from historyapp.core.excerpts import one_line
from historyapp.core.strategies.base import Language

LONGEST = 300
"""Characters of one field."""
_READ = 20_000
_NAMES: Mapping[str, tuple[str, ...]] = {
    "Task state": ("task_state", "task_status", "current_state", "state", "status"),
    "Completion": (
        "completion",
        "completion_rate",
        "task_completion",
        "progress",
        "completed",
        "is_complete",
    ),
    "Goal": ("goal", "objective", "task_goal", "step_goal", "next_goal"),
    "Key results": ("key_results", "key_findings", "findings", "results", "result", "outcome"),
    "Score": ("score", "rating"),
    "Passed": ("passed", "pass", "approved"),
}
_LABELS = {name: field for field, names in _NAMES.items() for name in names}
_LINE = re.compile(
    rf"^[\s\-*#>\"']*({'|'.join(sorted((n.replace('_', '[ _]') for n in _LABELS), key=len, reverse=True))})"
    r"[\"'*]*\s*[:：=]\s*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)


def judged_fields(episode: Episode, language: Language) -> dict[str, str]:
    """Task state, completion, goal, key results, score and passed, as far as they are told; each on one line.

    Nothing for a step without a review. The supervision's word counts most, then what execution said.
    """
    if not episode.reviews:
        return {}
    review = episode.reviews[-1]
    outputs = episode.result.outputs if episode.result else None
    found: dict[str, str] = {}
    for text in (review.supervision, outputs, review.analysis):
        for field, value in _fields(text).items():
            found.setdefault(field, value)
    if review.score is not None:
        found["Score"] = f"{review.score:g}"
    if review.passed is not None:
        found["Passed"] = "yes" if review.passed else "no"
    if "Key results" not in found and (said := plain_text(outputs)[:_READ].strip()):
        found["Key results"] = one_line(language.sentences(said[:LONGEST])[0], LONGEST)
    if "Goal" not in found and (said := plain_text(review.analysis)[:_READ].strip()):
        found["Goal"] = one_line(language.sentences(said[:LONGEST])[0], LONGEST)
    return {field: found[field] for field in _NAMES if found.get(field)}


def _fields(text: Any) -> dict[str, str]:
    """What an object's fields or a text's labelled lines tell."""
    if isinstance(text, str):
        text = _object(text) or text
    if isinstance(text, dict):
        pairs = [(str(name), value) for name, value in text.items() if value not in (None, "", [], {})]
    else:
        pairs = [(name, value) for name, value in _LINE.findall(plain_text(text)[:_READ])]
    found: dict[str, str] = {}
    for name, value in pairs:
        if field := _LABELS.get(re.sub(r"[\s_-]+", "_", name.strip().lower())):
            found.setdefault(field, one_line(_told(value), LONGEST))
    return found


def _object(text: str) -> Any:
    """The object that a text is in JSON; None where it is none."""
    if not text.lstrip().startswith("{") or len(text) > _READ:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return "; ".join(map(str, value))
    return plain_text(value)
