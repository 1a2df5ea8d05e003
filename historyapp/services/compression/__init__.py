"""Compression runs; see docs/compression.md.

``request`` resolves a request, and ``start`` creates the run. ``run_scheduler`` chooses the run that a
worker's thread works on. ``planning`` stores its items, which ``run`` claims. ``jobs`` reads what they cover,
``summarise`` makes their summaries through :mod:`historyapp.services.summary_writers`, and ``store`` stores
them.
"""
