"""Creates a session with live rewinds through the services. Runs inside Django."""

import json

from bench.fill import TASK, step
from historyapp.core.entries import EntryDraft, ModelInput
from historyapp.services.append import append
from historyapp.services.bootstrap import default_project
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session


def fill(rewinds: int, most: int) -> None:
    """Prints the session's id as JSON. Two steps are live for each of the ``most`` rewinds.

    Each rewind takes back one further step, so it leaves one more span.
    """
    project = default_project()
    session = create_session(project, names={"title": f"{rewinds} rewinds"})
    append(project, session.pk, [EntryDraft(ModelInput(content=TASK))])
    each = most // rewinds
    for number in range(rewinds):
        steps = [draft for n in range(2 * each) for draft in step(2 * each * number + n)]
        for start in range(0, len(steps), 2000):
            append(project, session.pk, steps[start : start + 2000])
        append(project, session.pk, list(step(number)))
        rewind(project, session.pk, Target(episodes=1))
    print(json.dumps(str(session.pk)))
