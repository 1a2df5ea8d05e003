"""Figures of runs, and of projects by day. They are counted before somebody reads them."""
