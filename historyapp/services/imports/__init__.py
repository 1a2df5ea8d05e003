"""Imports transcripts: reads files and appends their entries to the log."""
