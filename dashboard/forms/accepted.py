"""The estimate that a page has shown, as a text that its form sends back.

Whoever may write to a session can add steps or change its settings between the page and the click. So a
person's click starts at most what the page has shown.
"""

import re

from historyapp.services.compression.request import AcceptedRun, RunEstimate

_TEXT = re.compile(r"([0-9]{1,9})-([0-9]{1,9}) ([0-9]{1,15}|unknown) (\S{1,50}) (.{0,300})")


def accepted_text(run: RunEstimate) -> str:
    """For example ``1-6 1100 episode_summary openai:gpt-5-mini``."""
    cost = "unknown" if run.cost is None else run.cost
    return f"{run.first_step}-{run.last_step} {cost} {run.strategy} {run.model}"


def read_accepted(text: str) -> AcceptedRun | None:
    """The inverse of :func:`accepted_text`. None if the text is not one of its results."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    first, last, cost, strategy, model = match.groups()
    return AcceptedRun(strategy, model, int(last), None if cost == "unknown" else int(cost), int(first))
