"""Tags of the list of sessions."""

from collections.abc import Mapping
from uuid import UUID

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.rendering.strip import draw_strip
from dashboard.rendering.text import visible
from dashboard.session_list.columns import ListColumn
from dashboard.session_list.filters import SessionFilters
from dashboard.templatetags.playhead import icon, outcome
from historyapp.core.overview.findings import stated_ending, unanswered_text
from historyapp.models import Annotation, Session
from historyapp.models.recent import is_active
from historyapp.models.session_folds import ChildCounts
from historyapp.models.session_lists import Order

register = template.Library()

_SHOWN = 14
"""Characters that are shown of a beginning that many titles share."""


@register.filter
def is_idle(session: Session) -> bool:
    """Whether an unfinished session is not among those that are live now."""
    return not is_active(session, timezone.now())


@register.filter
def saved_annotation(session: Session) -> Annotation | None:
    """The session's note and score. As a variable of a template, a missing one takes 80 µs in each row."""
    return getattr(session, "annotation", None)


@register.simple_tag
def strip(session: Session) -> SafeString:
    """The session's outcomes as a tiny picture."""
    return draw_strip(session)


@register.simple_tag
def ended(session: Session, exit_statuses: Mapping[UUID, object]) -> SafeString:
    """How a session ended: as its transcript states, otherwise as its newest step did.

    Args:
        exit_statuses: see :func:`historyapp.models.session_lists.exit_statuses`.
    """
    step = session.live_tail.step
    if step is None:
        return SafeString()
    is_live = session.status == Session.Status.LIVE and not session.is_untouched_fork
    stated = stated_ending(exit_statuses.get(session.pk))
    if stated and not is_live:
        kind, text = stated
        css, word = "good" if kind == "submitted" else "bad", text.partition(":")[0]
        return format_html('<span class="ending {}" title="{}">{}</span>', css, visible(text), visible(word))
    has_input = session.live_tail.begins_turn
    if step.status == "success" and step.likely_failure and not has_input:
        return outcome("likely_failed")
    unanswered = unanswered_text(step.status, has_input=has_input)
    if unanswered and not is_live:
        shown = '<span class="outcome" title="{}">{}not answered</span>'
        return format_html(shown, unanswered, icon("user" if has_input else "check"))
    if unanswered and has_input:
        return format_html('<span class="outcome">{}input waiting</span>', icon("user"))
    return outcome(step.status)


@register.simple_tag
def recording_forks_of(recording: dict[UUID, list[Session]], session: Session) -> list[Session]:
    """The forks of a session that record now, newest first."""
    return recording.get(session.pk, [])


@register.simple_tag
def folded_sessions_of(folded: dict[UUID, ChildCounts], session: Session) -> ChildCounts | None:
    """The forks and sub-agents that are folded under a session."""
    return folded.get(session.pk) if folded else None


@register.simple_tag
def sorted_query(filters: SessionFilters, column: ListColumn, order: Order) -> str:
    """The query string of the list sorted by a column, or in reverse order if it is already sorted by it."""
    descends = not order.is_descending if order.name == column.order else column.descends
    return filters.but(order=Order(column.order, descends)).query


@register.simple_tag
def sorted_as(column: ListColumn, order: Order) -> str:
    """``aria-sort`` of a column's head; empty if the list is not sorted by it."""
    if not column.order or order.name != column.order:
        return ""
    return "descending" if order.is_descending else "ascending"


@register.simple_tag
def session_title(session: Session, begins: int) -> SafeString:
    """A session's title.

    Args:
        begins: the start of the part that differs from other titles. The text before it is shortened.
    """
    if not begins:
        return format_html("<bdi>{}</bdi>", visible(str(session)))
    shared, distinct = visible(session.title[:_SHOWN].rstrip()), visible(session.title[begins:])
    return format_html('<bdi class="alike">{}…</bdi> <bdi>{}</bdi>', shared, distinct)
