"""What the server answers about costs, typed. Money is in US dollars."""

from historyapp.client.answers import Answer


class Usage(Answer):
    """Tokens as billed, in one convention whoever reported them."""

    input: int
    """``uncached``, ``cache_read`` and ``cache_write`` together."""
    uncached: int
    cache_read: int
    cache_write: int
    output: int
    """Reasoning included."""
    reasoning: int


class ModelLedger(Usage):
    model: str
    """As the calls name it; empty where they do not."""
    calls: int
    estimated: int
    counted: int
    money: float | str
    """``unknown`` where the model's price is."""
    reported: float
    """As the source reported it."""


class InputTokens(Answer):
    estimated: int
    estimated_billed: int
    """What the calls with an estimate were billed."""
    counted: int
    billed: int


class Ledger(Answer):
    """What a session cost."""

    steps: int
    calls: int
    """Model calls whose usage or cost was reported."""
    tokens: InputTokens
    usage: Usage
    models: list[ModelLedger]
    """The dearest first."""
    money: float
    """Of the models whose prices are known."""
    reported: float
    unknown_models: list[str]
    """Those that ``money`` leaves out."""
    prices_as_of: str


class StepLedger(Usage):
    """What a step cost."""

    number: int
    first_position: int
    status: str
    model: str
    tokens: int
    """Of the step's entries, by the server's own count."""
    estimated: int
    counted: int
    money: float | str | None
    """``unknown`` where the model's price is; null: the step reports no usage."""
