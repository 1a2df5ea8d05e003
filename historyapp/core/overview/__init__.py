"""The figures of a whole run: time, tools, files, commands, size of the context, repeated work.

They are a fold over the live entries, as :mod:`historyapp.core.projection` is. Their state is larger, and
no append depends on it, so it is computed later, starting from stored checkpoints.
"""
