"""Compression runs; see docs/compression.md.

``request`` resolves a request, and ``start`` creates the run. ``items`` stores its items and reads what they
cover. ``run`` claims items, ``summarise`` makes their summaries through
:mod:`historyapp.services.summary_writers`, and ``store`` stores them.
"""
