"""Writing summaries in a process that can be killed.

``writers`` sends the steps to ``process``. ``scheduler`` decides which project's summary is written next.
"""
