"""Imports a file with ``playhead import`` and prints the seconds and the peak memory of both processes."""

import os
import resource
import sys
import time

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")
    import django

    django.setup()
    from django.core.management import call_command

    begin = time.perf_counter()
    call_command("import", sys.argv[1], verbosity=0)
    seconds = time.perf_counter() - begin
    storing, reading = (
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(f"{seconds:.3f} s, {storing:.0f} MB, {reading:.0f} MB")
