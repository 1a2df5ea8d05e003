"""Locks a compression run together with its session.

Each transaction that changes both locks the session first. On PostgreSQL a transaction that has locked a row
has a number, and the feed of changes of all projects ends before the oldest one. So a transaction that waits
for a session, which others may keep for seconds, must not have locked anything yet.
"""

from uuid import UUID

from historyapp.models import CompressionRun, Session


def lock_run(run_id: UUID) -> CompressionRun:
    """The run with its session. Both are locked until the transaction ends.

    Raises:
        CompressionRun.DoesNotExist: when the session was deleted meanwhile.
    """
    sessions = Session.objects.select_for_update(no_key=True, of=("self",))
    session = sessions.filter(compression_runs__pk=run_id).first()
    run = CompressionRun.objects.select_for_update().get(pk=run_id)
    assert session is not None
    run.session = session
    return run
