"""The form of a session's settings: what each is called, what it means, and what can be filled in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.http import QueryDict
from pydantic import ValidationError

from historyapp.core.policies import POLICIES
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.text import clean

LONGEST = 200
"""Characters of a name."""
NO_LIMIT = "no_limit"
"""The box that stands for ``max_tokens`` null: an empty field is the default."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How one field of ``SessionSettings`` is asked for."""

    name: str
    label: str
    help: str
    unit: str = ""
    kind: Literal["text", "number", "choice", "switch"] = "number"
    choices: tuple[tuple[str, str], ...] = ()
    """Value and words."""


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that belong together."""

    title: str
    settings: tuple[Setting, ...]


GROUPS = (
    Group(
        "Context",
        (
            Setting(
                "policy",
                "Policy",
                "How the context for the next model call is chosen.",
                kind="choice",
                choices=tuple((name, name) for name in POLICIES),
            ),
            Setting(
                "max_tokens",
                "Budget",
                "Maximum tokens of a context; 0 means zero. Leave empty to use the model's context window.",
                "tokens",
            ),
            Setting(
                "full_message_count",
                "Newest steps in full",
                "For the policy episodic. These steps are not compressed. 0 or less: no steps.",
                "steps",
            ),
            Setting(
                "window_size",
                "Window",
                "For the policy sliding_window: the newest steps that stay in full. They are not compressed.",
                "steps",
            ),
        ),
    ),
    Group(
        "Compression",
        (
            Setting(
                "compress_automatically",
                "Compress automatically",
                "Compress older steps in the background while the agent works.",
                kind="switch",
            ),
            Setting(
                "compression_strategy",
                "Strategy",
                "How steps are summarised.",
                kind="choice",
                choices=tuple((name, strategy.title) for name, strategy in STRATEGIES.items()),
            ),
            Setting(
                "llm_name",
                "Summary model",
                "A model name, provider:name, or local, which needs no API key and costs nothing.",
                kind="text",
            ),
            Setting(
                "compression_batch_size",
                "Batch size",
                "Compress once this many older steps accumulate. A range summary covers as many steps.",
                "steps",
            ),
            Setting(
                "compression_share",
                "Token threshold",
                "Also compress once unsummarised older steps reach this share of the budget; 0.5 is half. "
                "Leave empty to use only the batch size.",
                "× budget",
            ),
            Setting(
                "max_summary_length",
                "Summary length",
                "Summaries that are longer in total are summarised again.",
                "characters",
            ),
            Setting(
                "spacy_language_model",
                "spaCy language model",
                "For extracts and for splitting long texts. If it is missing, a simpler method is used.",
                kind="text",
            ),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Field:
    """A setting with what is filled in."""

    setting: Setting
    value: str
    """Empty: the default holds."""
    default: str
    fault: str

    @property
    def is_on(self) -> bool:
        """Of a switch."""
        return (self.value or self.default) == "on"

    @property
    def has_no_limit(self) -> bool:
        return self.value == NO_LIMIT


def settings_in(query: QueryDict) -> dict[str, Any]:
    """What a form says, by setting; those left empty are not in it."""
    found: dict[str, Any] = {}
    for setting in _all():
        text = clean(query.get(setting.name, "")).strip()[:LONGEST]
        if setting.kind == "switch":
            found[setting.name] = text == "on"
        elif setting.name == "max_tokens" and query.get(NO_LIMIT):
            found[setting.name] = None
        elif text:
            found[setting.name] = text
    return found


def faults_of(values: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with settings, in one sentence for each."""
    faults: dict[str, str] = {}
    try:
        SessionSettings.model_validate(dict(values))
    except ValidationError as error:
        faults = {str(fault["loc"][0]): _sentence(str(fault["loc"][0])) for fault in error.errors()}
    for name, known in (("compression_strategy", STRATEGIES), ("policy", POLICIES)):
        if name in values and values[name] not in known:
            faults[name] = _sentence(name)
    return faults


def _sentence(name: str) -> str:
    setting = next(setting for setting in _all() if setting.name == name)
    if setting.kind == "choice":
        return f"Choose one of {', '.join(value for value, _ in setting.choices)}."
    bounds = _bounds(name)
    if "exclusiveMinimum" in bounds:
        return f"Enter a number above {bounds['exclusiveMinimum']:g}, at most {bounds['maximum']:g}."
    least, most = bounds.get("minimum"), bounds.get("maximum")
    if most is None:
        return f"Enter a whole number, {least:,} or more."
    return f"Enter a whole number from {least:,} to {most:,}."


def _bounds(name: str) -> dict[str, Any]:
    schema = SessionSettings.model_json_schema()["properties"][name]
    return {**schema, **next(iter(schema.get("anyOf", ())), {})}


def fields_of(values: Mapping[str, Any], faults: Mapping[str, str]) -> list[tuple[Group, list[Field]]]:
    """The form with what is filled in. Values that are the default's are left empty."""
    return [
        (group, [_field(setting, values, faults.get(setting.name, "")) for setting in group.settings])
        for group in GROUPS
    ]


def _field(setting: Setting, values: Mapping[str, Any], fault: str) -> Field:
    default = _text(setting, SessionSettings.model_fields[setting.name].default)
    value = _text(setting, values[setting.name]) if setting.name in values else ""
    return Field(setting, "" if value == default and setting.kind != "choice" else value, default, fault)


def _text(setting: Setting, value: Any) -> str:
    if value is None:
        return NO_LIMIT if setting.name == "max_tokens" else ""
    if setting.kind == "switch":
        return "on" if value else "off"
    return str(value)


def _all() -> Iterator[Setting]:
    for group in GROUPS:
        yield from group.settings
