"""Limits what automatic runs pay for, in proportion to what was recorded.

A summary stands for its steps while the last of them is live. A key without ``spend`` may rewind and fork, so
with a few bytes it could make automatic runs pay for the same steps again and again.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import ceil

from django.db.models import BigIntegerField, F, Sum
from django.db.models.functions import Greatest

from historyapp.models import CompressionItem, CompressionRun
from historyapp.models.compressions import AUTOMATIC
from historyapp.models.families import SharedEntries
from historyapp.models.recorded_tokens import recorded_tokens

MAX_RATIO = 10
"""Automatic runs of a session and its forks pay for at most this many times the tokens of the entries that
were recorded there and of the summaries that these runs have made of steps. Steps are read once or twice,
summaries four to eight times for digests.

Summaries count for at most as many tokens as entries: a run that repeats a summary would otherwise pay for
the next one."""
TOKENS_OF_CALL = 1_500
"""The tokens of each model call that do not count: the instruction and the session's first input."""
MAX_RUNS = 10_000
"""The number of automatic runs, the newest ones, whose tokens count."""


def check_limit(
    items: Sequence[CompressionItem], family: SharedEntries
) -> tuple[str, Sequence[CompressionItem]]:
    """The error of an automatic run's items that are too many tokens to pay for, and these items.

    Args:
        items: claimed, in the order of their steps. The claims of other workers count too, so that of two
            workers that claim at once, at least one sees the other.
    """
    paid, written = _tokens_of_runs(family)
    paid += _claimed_by_others(items, family)
    totals = list(accumulate((item.tokens_before for item in items), initial=paid))
    enough = ceil(totals[-1] / MAX_RATIO)
    recorded = recorded_tokens(family, enough=max(enough - written, ceil(enough / 2)))
    counted = recorded + min(written, recorded)
    fitting = bisect_right(totals, MAX_RATIO * counted, lo=1) - 1
    if fitting == len(items):
        return "", []
    return (
        f"Automatic compressions of this session and its forks have paid for {paid:,} tokens. They pay for "
        f"at most {MAX_RATIO} times the {counted:,} tokens that were recorded and summarised "
        "there: rewinds and forks can make them pay for the same steps again. They continue when more is "
        "recorded. Retry this compression to pay for these steps now."
    ), items[fitting:]


def _tokens_of_runs(family: SharedEntries) -> tuple[int, int]:
    """The tokens that automatic runs have paid for, without those of their instructions, and the tokens of
    the summaries of steps that they have made."""
    runs = CompressionRun.objects.filter(session__in=family.sessions, actor=AUTOMATIC)
    of_texts = F("tokens_in") - TOKENS_OF_CALL * F("calls")
    # A provider may report less than it was sent.
    counted = Greatest(of_texts, F("tokens_before"), output_field=BigIntegerField())
    sums = runs.order_by("-pk")[:MAX_RUNS].aggregate(paid=Sum(counted), written=Sum("tokens_after"))
    return sums["paid"] or 0, sums["written"] or 0


def _claimed_by_others(items: Sequence[CompressionItem], family: SharedEntries) -> int:
    """The tokens that other workers are paying for."""
    sessions, own = set(family.sessions), {item.pk for item in items}
    # With a condition on the runs, SQLite would read all runs of the sessions.
    claimed = CompressionItem.objects.filter(claim__isnull=False, state=CompressionItem.State.CLAIMED)
    rows = claimed.values_list("pk", "run__actor", "run__session", "tokens_before")
    return sum(
        tokens
        for pk, actor, session, tokens in rows
        if actor == AUTOMATIC and session in sessions and pk not in own
    )
