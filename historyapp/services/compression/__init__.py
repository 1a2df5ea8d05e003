"""Compression runs: starting, planning and carrying them out; see docs/compression.md."""
