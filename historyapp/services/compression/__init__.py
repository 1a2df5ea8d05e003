"""Compression runs; see docs/compression.md.

``request`` settles what a run will do, and ``start`` creates it. A worker's task calls ``run``, which claims
items, has ``summarise`` make the summaries through ``writers``, and saves them through ``store``.
"""
