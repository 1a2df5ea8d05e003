"""Importing transcripts: from a file to entries in the log."""
