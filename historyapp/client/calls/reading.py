"""Steps, and the history as text and as messages."""

from typing import Any, Literal

from historyapp.client.answers import Episode, EpisodeItem, TextAnswer
from historyapp.client.calls.making import Id, at, get, given, pages
from historyapp.client.calls.recording import Order
from historyapp.client.context_answers import Messages
from historyapp.client.description import Call, Pages


def episodes(
    session_id: Id,
    *,
    from_step: int | None = None,
    to_step: int | None = None,
    order: Order | None = None,
    limit: int | None = None,
    as_of: int | None = None,
) -> Pages[EpisodeItem]:
    """Steps with previews, both ends included; negative numbers count from the end.

    Args:
        order: ``oldest`` first unless ``newest``.
        limit: how many to fetch at once.
    """
    query = {"from": from_step, "to": to_step, "order": order, "limit": limit, "as_of": as_of}
    return pages(at("sessions", session_id, "episodes"), EpisodeItem, **query)


def full_episodes(
    session_id: Id,
    *,
    from_step: int | None = None,
    to_step: int | None = None,
    order: Order | None = None,
    limit: int | None = None,
    as_of: int | None = None,
) -> Pages[Episode]:
    """The same steps with their bodies."""
    query = {"from": from_step, "to": to_step, "order": order, "limit": limit, "as_of": as_of}
    return pages(at("sessions", session_id, "episodes"), Episode, full=True, **query)


def episode(session_id: Id, number: int, *, as_of: int | None = None) -> Call[Episode]:
    """One step with its bodies; -1 is the newest."""
    return get(at("sessions", session_id, "episodes", number), Episode, as_of=as_of)


def progress(
    session_id: Id,
    style: Literal["list", "paragraph", "compiled"] = "list",
    *,
    from_step: int | None = None,
    to_step: int | None = None,
    max_tokens: int | None = None,
    as_of: int | None = None,
) -> Call[str]:
    """The history as text: a line for each step, long forms, or summaries within a budget.

    Args:
        max_tokens: of ``compiled``, in tokens; None: as the session's settings say.
    """
    query = {"style": style, "from": from_step, "to": to_step, "max_tokens": max_tokens, "as_of": as_of}
    return Call("GET", at("sessions", session_id, "progress"), _text, given(query))


def history(session_id: Id, *, as_of: int | None = None) -> Call[str]:
    """The sliding-window history as text: summaries of older steps, then the newest ones in detail."""
    return Call("GET", at("sessions", session_id, "history"), _text, given({"as_of": as_of}))


def messages(session_id: Id, *, max_tokens: int | None = None, as_of: int | None = None) -> Call[Messages]:
    """The context that the policy ``episodic`` chooses, in no provider's format, with its manifest.

    Args:
        max_tokens: None: as the session's settings say.
    """
    return get(at("sessions", session_id, "messages"), Messages, max_tokens=max_tokens, as_of=as_of)


def _text(data: Any) -> str:
    return TextAnswer.model_validate(data).text
