"""The pages that a share link can open: the session page and its fragments, and no page that writes.

``dashboard/views/shared.py`` puts the link's own address before these. They have the names of the same pages
in ``dashboard/urls.py``, so most templates need no change. The name of any other page cannot be resolved.
"""

from dashboard.urls import urlpatterns as all_pages

PAGES = frozenset(
    (
        *("session", "timeline", "find", "jump", "replay-time", "steps", "take", "news"),
        *("step", "calls", "raw", "block", "whole-text", "image"),
    )
)

urlpatterns = [page for page in all_pages if page.name in PAGES]
