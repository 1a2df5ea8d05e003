"""Sessions with something to evaluate."""

from historyapp.core.entries import SystemInstruction
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, draft, ok


def record_lookups(
    project: Project, steps: int = 9, *, model: str = "gpt-5-mini", instruction: str = "Look things up."
) -> Session:
    """A session whose steps use a name that the result two steps before had first."""
    session = create_session(project, names={"title": "lookups", "model": model})
    drafts = [draft(SystemInstruction(text=instruction)), ask("Look everything up.")]
    for number in range(1, steps + 1):
        text = f"entry {number} is in data/part_{number}.json, " + "with other words " * 40
        drafts += [act("look", path=f"data/part_{number - 2}.json"), ok(outputs=text)]
    append(project, session.pk, drafts)
    session.refresh_from_db()
    return session
