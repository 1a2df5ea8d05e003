"""Sessions of any length, made in the database: appending 100,000 steps one by one would take minutes."""

from django.db import connection, transaction

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.models import Project, Session
from historyapp.models.tails import tail_of
from historyapp.services.append import append, apply_tail
from historyapp.services.sessions import create_session

ERROR_EVERY = 50
"""One in this many steps ends in an error."""

_NUMBERS = "WITH RECURSIVE step(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM step WHERE n < %s)"
_ENTRIES = f"""
INSERT INTO historyapp_entry (session_id, position, kind, created_at, body, metadata, tokens, totals)
{_NUMBERS}
SELECT session_id, position + 2 * (n - 1), kind, created_at, body, metadata, tokens,
       '{{"steps":' || n || ',"errors":' || (n / {ERROR_EVERY}) || ',"tokens":' || (500 * n) || '}}'
FROM historyapp_entry, step WHERE session_id = %s
"""
_EPISODES = f"""
INSERT INTO historyapp_episode (
    session_id, anchor, number, first_position, last_position, total_tokens, total_errors,
    status, tool_names, tool, input_preview, thought_preview, call_preview, result_preview,
    tokens, started_at, finished_at, unpaired, unanswered, kind, target, error_line)
{_NUMBERS}
SELECT session_id, 2 * n - 1, n, 2 * n - 1, 2 * n, 500 * n, n / {ERROR_EVERY},
       CASE WHEN n %% {ERROR_EVERY} = 0 THEN 'error' ELSE 'success' END,
       tool_names, tool, input_preview, thought_preview, call_preview, result_preview,
       tokens, started_at, finished_at, unpaired, unanswered, kind, target,
       CASE WHEN n %% {ERROR_EVERY} = 0 THEN 'it failed' ELSE '' END
FROM historyapp_episode, step WHERE session_id = %s
"""


def long_session(project: Project, steps: int, output: str = "fine") -> Session:
    """A session whose steps are all alike but for their outcome."""
    session = create_session(project, names={"title": f"{steps} steps"})
    call = ToolCall(id="call", name="read_file", arguments={"path": "notes.txt"})
    result = ToolResult(tool_call_id="call", status="success", outputs=output)
    bodies = ModelOutput(thoughts="Read it.", tool_calls=(call,)), ToolResults(results=(result,))
    append(project, session.pk, [EntryDraft(body) for body in bodies])
    id = session.pk if connection.vendor == "postgresql" else session.pk.hex
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # to check each row's session at the end took most of the time
            cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_ENTRIES, [steps, id])
        cursor.execute(_EPISODES, [steps, id])
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL session_replication_role = origin")
    session.refresh_from_db()
    session.head = 2 * steps
    apply_tail(session, tail_of(session.lineage()))
    session.save()
    return session
