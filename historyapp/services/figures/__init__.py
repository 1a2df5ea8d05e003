"""Figures of runs, and of projects by day. They are computed before they are read."""
