"""The form of a session's settings: labels, hints, and the values that were filled in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.http import QueryDict
from pydantic import ValidationError

from historyapp.core.formats import FORMATS
from historyapp.core.language import installed_models
from historyapp.core.policies import POLICIES
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.text import clean

MAX_NAME = 200
"""The maximum number of characters of a name."""
NO_LIMIT = "no_limit"
"""The checkbox that stands for ``max_tokens`` null: an empty field is the default."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The form field of one field of ``SessionSettings``."""

    name: str
    label: str
    help: str
    unit: str = ""
    kind: Literal["text", "long_text", "number", "choice", "switch"] = "number"
    choices: tuple[tuple[str, str], ...] = ()
    """Value and label."""

    def text(self, value: Any) -> str:
        """A value as the form field holds it."""
        if value is None:
            return NO_LIMIT if self.name == "max_tokens" else ""
        if self.kind == "switch":
            return "on" if value else "off"
        return str(value)


_POLICIES = tuple((name, name) for name in POLICIES)
_FORMATS = (("", "format of the model's provider"), *((name, name) for name in FORMATS))
_STRATEGIES = tuple((name, strategy.title) for name, strategy in STRATEGIES.items())
GROUPS = {
    "Context": (
        Setting("policy", "Policy", "How the context for the next model call is chosen.",
                kind="choice", choices=_POLICIES),
        Setting("max_tokens", "Budget",
                "Maximum tokens of a context; 0 means zero. Leave empty to use the model's context window.",
                "tokens"),
        Setting("format", "Format", "The message format of contexts.", "", "choice", _FORMATS),
        Setting("full_message_count", "Newest steps in full",
                "For the policy episodic. These steps are not compressed. 0 means none.", "steps"),
        Setting("window_size", "Window",
                "For the policy sliding_window: the newest steps that stay in full. They are not compressed.",
                "steps"),
    ),
    "Compression": (
        Setting("compress_automatically", "Compress automatically",
                "Compress older steps in the background while the agent works. A provider's model is used "
                "only where the project's settings allow it.", kind="switch"),
        Setting("compression_strategy", "Strategy", "How steps are summarised.", "", "choice", _STRATEGIES),
        Setting("llm_name", "Summary model",
                "A model name, provider:name, or local, which needs no API key and costs nothing.",
                kind="text"),
        Setting("summary_instruction", "Summary instruction",
                "For the strategy ai_summary: the instruction to the model, at most 2,000 characters. "
                "Playhead adds the output format. Leave empty to use the project's instruction or the "
                "default.",
                kind="long_text"),
        Setting("compression_batch_size", "Batch size",
                "Compress once this many older steps accumulate. A range summary covers the same number "
                "of steps.",
                "steps"),
        Setting("compression_share", "Token threshold",
                "Also compress once unsummarised older steps reach this share of the budget; 0.5 is half. "
                "Leave empty to use only the batch size.", "× budget"),
        Setting("max_summary_length", "Summary length",
                "If all summaries together are longer, the oldest are combined.", "characters"),
        Setting("spacy_language_model", "spaCy language model",
                "For extracts and for splitting long texts. If it is missing, a simpler method is used.",
                kind="text"),
    ),
}  # fmt: skip
SETTINGS = {setting.name: setting for group in GROUPS.values() for setting in group}


@dataclass(frozen=True, slots=True)
class SettingField:
    """A setting with its value."""

    setting: Setting
    value: str
    """Empty: the default."""
    default: str
    error: str
    note: str = ""
    """A sentence about the values that this server offers, for example the installed models."""


def read_settings(query: QueryDict) -> dict[str, Any]:
    """The values that a form sends, by setting; empty fields are left out."""
    values: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        text = query.get(name, "").strip()
        if setting.kind != "long_text":
            text = clean(text)[:MAX_NAME]
        if setting.kind == "switch":
            values[name] = text == "on"
        elif name == "max_tokens" and query.get(NO_LIMIT):
            values[name] = None
        elif text:
            values[name] = text
    return values


def find_errors(values: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with each invalid setting, in one sentence."""
    names: list[str] = []
    reasons: dict[str, str] = {}
    try:
        SessionSettings.model_validate(dict(values))
    except ValidationError as error:
        for field_error in error.errors():
            names.append(name := str(field_error["loc"][0]))
            if "error" in field_error.get("ctx", {}):
                reasons[name] = f"It {field_error['ctx']['error']}"
    for name, known in (("compression_strategy", STRATEGIES), ("policy", POLICIES), ("format", FORMATS)):
        if values.get(name) and values[name] not in known:
            names.append(name)
    return {
        name: reasons[name] if SETTINGS[name].kind == "long_text" else _requirement(SETTINGS[name])
        for name in names
    }


def _requirement(setting: Setting) -> str:
    if setting.kind == "choice":
        return f"Choose one of {', '.join(value for value, _ in setting.choices if value)}."
    schema = SessionSettings.model_json_schema()["properties"][setting.name]
    bounds = {**schema, **next(iter(schema.get("anyOf", ())), {})}
    if "exclusiveMinimum" in bounds:
        return f"Enter a number above {bounds['exclusiveMinimum']:g}, at most {bounds['maximum']:g}."
    minimum, maximum = bounds.get("minimum"), bounds.get("maximum")
    if maximum is None:
        return f"Enter a whole number, {minimum:,} or more."
    return f"Enter a whole number from {minimum:,} to {maximum:,}."


def form_groups(
    values: Mapping[str, Any], errors: Mapping[str, str], instruction: str
) -> list[tuple[str, list[SettingField]]]:
    """The form's groups of fields, each with its title. A value that is the default is left empty.

    Args:
        instruction: the summary instruction of a session without its own.
    """
    fields = {}
    for name, setting in SETTINGS.items():
        default = setting.text(SessionSettings.model_fields[name].default)
        if name == "summary_instruction":
            default = instruction
        value = setting.text(values[name]) if name in values else ""
        if value == default and setting.kind != "choice":
            value = ""
        note = ""
        if name == "spacy_language_model":
            installed = ", ".join(installed_models())
            note = f"Installed: {installed}." if installed else "No spaCy model is installed."
        fields[name] = SettingField(setting, value, default, errors.get(name, ""), note)
    return [(title, [fields[setting.name] for setting in group]) for title, group in GROUPS.items()]
