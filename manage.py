#!/usr/bin/env python
"""The same program as the installed ``playhead`` command, for use in a checkout."""

from historyapp.__main__ import main

if __name__ == "__main__":
    main()
