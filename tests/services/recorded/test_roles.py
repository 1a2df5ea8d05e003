"""The roles of a request's messages: those that the model got."""

from historyapp.core.entries import DebugLog, ModelInput
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.recorded.requests import messages, recorded_request
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, draft, ok


def roles(session: Session, step: int) -> list[str]:
    session.refresh_from_db()
    return [message.role for message in messages(recorded_request(History(session), step), 0, 50)]


def test_later_instructions_have_the_role_that_the_model_got(project: Project) -> None:
    session = create_session(project)
    later = [
        draft(ModelInput(channel=channel, content="Mind.")) for channel in ("developer", "system", "meta")
    ]
    append(project, session.pk, [ask("go"), act(), ok(), *later, act()])
    assert roles(session, 2) == ["user", "assistant", "tool", "developer", "system", "user"]


def test_items_of_codex_that_replace_the_history_keep_their_roles(project: Project) -> None:
    session = create_session(project)
    items = [{"type": "message", "role": role, "content": "short"} for role in ("developer", "user")]
    log = draft(DebugLog(category="compaction", message="replaced"), replacement_history=items)
    append(project, session.pk, [ask("go"), act(), ok(), log, act()])
    assert roles(session, 2) == ["developer", "user"]
