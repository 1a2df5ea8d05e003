"""Fields in the three texts of a reviewed step: analysis, execution and supervision."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from historyapp.core.content import plain_text
from historyapp.core.episodes import Episode
from historyapp.core.strategies.base import Language
from historyapp.core.strategies.lines import line_of

MAX_FIELD = 300
"""Characters of one field."""
_MAX_READ = 20_000
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
_SPELLINGS = sorted((name.replace("_", "[ _]") for name in _LABELS), key=len, reverse=True)
# The characters before a name are matched once and within one line. Blank lines would take quadratic time.
_LINE = re.compile(
    rf"^(?:[^\S\n]|[-*#>\"'])*+({'|'.join(_SPELLINGS)})"
    r"[\"'*]*\s*[:：=]\s*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)


def review_fields(episode: Episode, language: Language) -> dict[str, str]:
    """The stated fields: task state, completion, goal, key results, score and passed, each on one line.

    Empty for a step without a review. If several texts state a field, the supervision counts first, then the
    execution, then the analysis.
    """
    if not episode.reviews:
        return {}
    review = episode.reviews[-1]
    outputs = episode.result.outputs if episode.result else None
    fields: dict[str, str] = {}
    for text in (review.supervision, outputs, review.analysis):
        for field, value in stated_fields(text).items():
            fields.setdefault(field, value)
    if review.score is not None:
        fields["Score"] = f"{review.score:g}"
    if review.passed is not None:
        fields["Passed"] = "yes" if review.passed else "no"
    for field, source in (("Key results", outputs), ("Goal", review.analysis)):
        if field not in fields and (text := plain_text(source)[:_MAX_READ].strip()):
            fields[field] = line_of(language.sentences(text[:MAX_FIELD])[0], MAX_FIELD)
    return {field: fields[field] for field in _NAMES if fields.get(field)}


def stated_fields(text: Any) -> dict[str, str]:
    """The fields of an object, or the labelled lines of a text."""
    if isinstance(text, str) and text.lstrip().startswith("{") and len(text) <= _MAX_READ:
        with suppress(ValueError, RecursionError):
            text = json.loads(text)
    if isinstance(text, dict):
        pairs = [(str(name), value) for name, value in text.items() if value not in (None, "", [], {})]
    else:
        pairs = [(name, value) for name, value in _LINE.findall(plain_text(text)[:_MAX_READ])]
    fields: dict[str, str] = {}
    for name, value in pairs:
        if field := _LABELS.get(re.sub(r"[\s_-]+", "_", name.strip().lower())):
            fields.setdefault(field, line_of(_shown(value), MAX_FIELD))
    return fields


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return "; ".join(map(str, value))
    return plain_text(value)
