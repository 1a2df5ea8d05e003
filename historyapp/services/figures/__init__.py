"""Figures of runs and of projects by day, counted ahead of their readers."""
