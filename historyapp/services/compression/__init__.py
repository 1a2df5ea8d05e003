"""Compression runs; see docs/compression.md.

``request`` resolves a request, and ``start`` creates the run. A worker's task calls ``run``: ``planning``
stores the items, which ``run`` claims. ``summarise`` makes their summaries through ``writers``, and ``store``
stores them.
``many_items`` changes the state of many items.
"""
