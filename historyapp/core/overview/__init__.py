"""The figures of a whole run: time, tools, files, commands, size of the context, repeated work.

They are a fold over the live entries, as :mod:`historyapp.core.projection` is, but their state is larger and
nothing that an append does depends on it. So it is computed after the fact, from stored checkpoints on.
"""
