"""The tabs of a session's page, below the context. One file each; the registry names them.

docs/extending.md shows how to add one.
"""

from dashboard.tabs.base import Tab
from dashboard.tabs.ledger import LEDGER

TABS: dict[str, Tab] = {tab.name: tab for tab in (LEDGER,)}
