"""Compression runs; see docs/compression.md.

``start`` creates a run. A worker's task calls ``run``, which claims ``items``, has ``summarise`` ask the
model, and stores the results through ``store``. ``automatic`` decides when a session's settings want a run.
"""
