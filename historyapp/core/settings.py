"""The settings of a session, with the defaults of the earlier systems."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from unicodedata import category

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from historyapp.core.entries import check_unknown_fields

UNKNOWN_WINDOW = 200_000
"""The window in tokens of a model that the table does not list."""
_OPENAI_LONG, _CLAUDE_LONG = 922_000, 1_000_000
_WINDOWS = {
    "gpt-6-astra": _OPENAI_LONG,
    "gpt-6-sol": _OPENAI_LONG,
    "gpt-6-luna": _OPENAI_LONG,
    "gpt-6.1-sol": _OPENAI_LONG,
    "gpt-6.1-terra": _OPENAI_LONG,
    "gpt-6.2-astra": _OPENAI_LONG,
    "gpt-6.2-astra-law": 0,
    "gpt-6.2-sol": _OPENAI_LONG,
    "gpt-5.6-sol": _OPENAI_LONG,
    "gpt-5.6-terra": _OPENAI_LONG,
    "gpt-5.6-luna": _OPENAI_LONG,
    "gpt-5.6": 0,
    "gpt-5.5": _OPENAI_LONG,
    "gpt-5.4": _OPENAI_LONG,
    "gpt-5.4-mini": 272_000,
    "gpt-5.4-nano": 272_000,
    "gpt-5.3-chat": 111_000,
    "gpt-5.3-codex-spark": 0,
    "gpt-5.2-chat": 111_000,
    "gpt-5.1-chat": 111_000,
    "gpt-5": 272_000,
    "gpt-5-chat": 111_000,
    "gpt-5-pro": 0,
    "gpt-4.1": 1_014_000,
    "gpt-4.5": 111_000,
    "gpt-4o": 111_000,
    "chatgpt-4o": 111_000,
    "gpt-4": 8_000,
    "gpt-4-32k": 32_000,
    "gpt-4-turbo": 123_000,
    "gpt-4-0125": 123_000,
    "gpt-4-1106": 123_000,
    "gpt-4-vision": 123_000,
    "gpt-3.5-turbo": 12_000,
    "gpt-3.5-turbo-0301": 4_000,
    "gpt-3.5-turbo-0613": 4_000,
    "o1": 100_000,
    "o1-mini": 62_000,
    "o1-preview": 95_000,
    "o3": 100_000,
    "o4-mini": 100_000,
    "codex-mini": 100_000,
    "claude": 200_000,
    "claude-opus-4-6": _CLAUDE_LONG,
    "claude-opus-4-7": _CLAUDE_LONG,
    "claude-opus-4-8": _CLAUDE_LONG,
    "claude-sonnet-4-6": _CLAUDE_LONG,
    "claude-opus-5": _CLAUDE_LONG,
    "claude-sonnet-5": _CLAUDE_LONG,
    "claude-haiku-5": _CLAUDE_LONG,
    "claude-fable": _CLAUDE_LONG,
    "claude-mythos": _CLAUDE_LONG,
    "gemini-2": 1_048_576,
    "gemini-3": 1_048_576,
}
"""Tokens of input, by the prefix of a family's names: of OpenAI's models the window minus the longest answer.
0: not known, unlike that of the shorter prefix.
Source, for the names in openai 3.54 and anthropic 2.12: OpenAI documentation, "Models" (from GPT-5.4 on also
the pages of Vercel's AI Gateway), and Claude documentation, "Models overview" and the pages of legacy models,
on 2026-11-29; Gemini API documentation, "Gemini models", on 2026-11-24."""
_LONG_SUFFIX = "[1m]"
"""Claude Code adds this to the name of a model that it calls with a window of 1,000,000 tokens."""


MAX_BUDGET = 2**31 - 1
"""The largest budget in tokens. Sums and products with it fit into the columns of the database."""
MAX_BATCH_SIZE = 100_000
"""Steps."""
MAX_INSTRUCTION = 2_000
"""Characters."""


def checked_instruction(text: str) -> str:
    """An instruction for the summary model, stripped, with line feeds as line ends.

    Raises:
        ValueError: when it is empty, too long or contains control characters or surrogates. The message is a
            sentence without its subject, the instruction.
    """
    size = len(text)
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not text:
        raise ValueError("is empty. Leave it out or use null for the default instruction.")
    if size > MAX_INSTRUCTION:
        raise ValueError(f"has {size:,} characters. Use at most {MAX_INSTRUCTION:,}.")
    if control := next(
        (char for char in text if category(char) in ("Cc", "Cs") and char not in "\n\t"), None
    ):
        raise ValueError(f"contains the character U+{ord(control):04X}, which is not allowed. Remove it.")
    return text


_TEXT = r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
Instruction = Annotated[
    str,
    AfterValidator(checked_instruction),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_INSTRUCTION,
            "pattern": rf"^{_TEXT}*[^\s\x00-\x1f\x7f-\x9f]{_TEXT}*$",
        }
    ),
]
"""The instruction to the summary model."""


class SessionSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    llm_name: str = "gpt-5-mini"
    """The summary model."""
    max_tokens: Annotated[int, Field(ge=0, le=MAX_BUDGET)] | Literal["window"] | None = "window"
    """Budget of a context in tokens. ``window``: the model's window. Null: no limit. 0 allows no tokens."""
    spacy_language_model: str = "en_core_web_sm"
    full_message_count: int = Field(default=4, ge=-1_000_000, le=1_000_000)
    """How many of the newest steps the ``episodic`` policy shows in full; 0 or less: none."""
    window_size: int = Field(default=8, ge=1, le=100_000)
    """How many of the newest steps the ``sliding_window`` policy shows in full."""
    compression_batch_size: int = Field(default=4, ge=1, le=MAX_BATCH_SIZE)
    """A compression starts once this many older steps accumulate; a range summary covers as many."""
    compression_share: float | None = Field(default=None, gt=0, le=100)
    """Share of ``max_tokens``: older steps with this many tokens also start a compression; null: never."""
    compression_strategy: str = "episode_summary"
    max_summary_length: int = Field(default=8000, ge=1, le=10_000_000)
    """In characters; longer summaries are summarised again."""
    summary_instruction: Instruction | None = None
    """The instruction of ``ai_summary`` to the model; null: the project's instruction, or the default."""
    compress_automatically: bool = True
    policy: str = "budgeted"
    """A name in the registry ``core/policies``; services check it."""
    format: str | None = None
    """A name in the registry ``core/formats``; services check it. Null: that of the model's provider."""

    @model_validator(mode="before")
    @classmethod
    def _check_unknown_fields(cls, value: Any) -> Any:
        return check_unknown_fields(cls, value)

    @field_validator("max_tokens", mode="wrap")
    @classmethod
    def _check_budget(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        try:
            return check(value)
        except ValidationError:
            text = f'It must be a whole number from 0 to {MAX_BUDGET:,}, "window" or null'
            raise ValueError(text) from None

    def budget(self, model: str = "", recorded: int = 0) -> int | None:
        """Tokens of a context for a model; null: no limit.

        Args:
            recorded: the model's window as an agent recorded it; 0 if it did not.
        """
        return (recorded or window_of(model)) if self.max_tokens == "window" else self.max_tokens

    @property
    def detailed_steps(self) -> int:
        """How many of the newest steps stay as they are: ``window_size`` or ``full_message_count``."""
        count = self.window_size if self.policy == "sliding_window" else self.full_message_count
        return max(0, count)


def load_settings(stored: Mapping[str, Any]) -> SessionSettings:
    """The settings with these stored values, and the defaults for all others.

    Earlier versions stored larger budgets than :data:`MAX_BUDGET`. They are read as this budget.

    Raises:
        pydantic.ValidationError: for unknown names and values out of range.
    """
    budget = stored.get("max_tokens")
    if isinstance(budget, int) and budget > MAX_BUDGET:
        stored = {**stored, "max_tokens": MAX_BUDGET}
    return SessionSettings.model_validate(stored)


def window_of(model: str) -> int:
    """Tokens that a request to the model may have; :data:`UNKNOWN_WINDOW` if the model is not listed."""
    return known_window(model) or UNKNOWN_WINDOW


def known_window(model: str, billed: int = 0, recorded: int = 0) -> int | None:
    """Tokens that a request to the model may have: as recorded, otherwise by the longest listed prefix of its
    name.

    Args:
        billed: tokens of the largest request that the model accepted. A smaller window is not believed.
        recorded: the window that the agent recorded; 0 if it did not.
    """
    if recorded and recorded >= billed:
        return recorded
    name = model.lower().replace("/", ":").rpartition(":")[2]
    if name.startswith("claude"):  # OpenRouter's and Copilot's names have versions with a dot
        name = name.replace(".", "-")
    families = [family for family in _WINDOWS if name.startswith(family)]
    window = _WINDOWS[max(families, key=len)] if families else 0
    if name.endswith(_LONG_SUFFIX):
        window = max(window, _CLAUDE_LONG)
    return window if window >= max(billed, 1) else None
