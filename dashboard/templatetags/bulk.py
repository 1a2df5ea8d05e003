"""Words for actions on many sessions."""

from django import template
from django.template.defaultfilters import pluralize

from historyapp.models import BulkAction
from historyapp.services.bulk.progress import BulkProgress, ItemProgress

register = template.Library()

_TITLES = {
    "add_tag": "Add the tag “{}”.",
    "remove_tag": "Remove the tag “{}”.",
    "archive": "Archive.",
    "unarchive": "Unarchive.",
    "compress": "Compress.",
}
_DONE = {
    "add_tag": "tagged",
    "remove_tag": "changed",
    "archive": "archived",
    "unarchive": "unarchived",
    "compress": "compressed",
}
_STATES = {
    "waiting": "waiting",
    "under_way": "under way",
    "unchanged": "nothing to do",
    "failed": "failed",
    "cancelled": "cancelled",
}


@register.filter
def bulk_title(progress: BulkProgress) -> str:
    """The requested action."""
    return _TITLES[progress.action.kind].format(progress.action.tag)


@register.filter
def bulk_sentence(progress: BulkProgress) -> str:
    """The outcome in one sentence: ``12 of 14 sessions tagged, 1 had nothing to do, 1 failed.``"""
    counts, kind = progress.counts, progress.action.kind
    parts = [f"{counts['done']:,} of {progress.total:,} session{pluralize(progress.total)} {_DONE[kind]}"]
    if counts["unchanged"]:
        parts.append(f"{counts['unchanged']:,} had nothing to do")
    if counts["failed"]:
        parts.append(f"{counts['failed']:,} failed")
    if counts["under_way"]:
        parts.append(f"{counts['under_way']:,} under way")
    if counts["cancelled"]:
        parts.append(f"{counts['cancelled']:,} cancelled")
    if counts["waiting"]:
        is_over = progress.action.state == BulkAction.State.CANCELLED
        parts.append(f"{counts['waiting']:,} {'not started: cancelled' if is_over else 'waiting'}")
    return f"{', '.join(parts)}."


@register.filter
def item_state(item: ItemProgress, action: BulkAction) -> str:
    """The outcome for one session."""
    if item.state == "waiting" and action.state == BulkAction.State.CANCELLED:
        return "not started"
    return _STATES.get(item.state) or _DONE[action.kind]
