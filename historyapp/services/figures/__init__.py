"""Figures of runs, and of projects by day. Workers compute them before pages show them."""
