"""What can be reached through a share link: the session page and its fragments, and nothing that writes.

``dashboard/views/shared.py`` puts the link's own address before these. They have the names of the same pages
in ``dashboard/urls.py``, so most templates need not know. The name of any other page cannot be resolved here.
"""

from dashboard.urls import urlpatterns as all_pages

PAGES = frozenset(
    (
        *("session", "timeline", "find", "jump", "replay-time", "steps", "take", "news"),
        *("step", "calls", "raw", "block", "whole-text", "image"),
    )
)

urlpatterns = [page for page in all_pages if page.name in PAGES]
