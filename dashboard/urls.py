"""Addresses of the dashboard. Without htmx, fragments redirect to their page."""

from django.urls import path

from dashboard.tabs import TABS
from dashboard.views import (
    compression_forms,
    compressions,
    context,
    preferences,
    project,
    rewinds,
    session,
    session_settings,
    sessions,
    sign_in,
    steps,
    summaries,
    transfers,
)

SESSION = "sessions/<uuid:session_id>"

urlpatterns = [
    path("", sessions.sessions, name="sessions"),
    path("sign-in", sign_in.sign_in, name="sign-in"),
    path("sign-in/<str:token>", sign_in.sign_in_by_link, name="sign-in-by-link"),
    path("sign-out", sign_in.sign_out, name="sign-out"),
    path("theme", preferences.theme, name="theme"),
    path("projects/<uuid:project_id>/switch", preferences.switch_project, name="switch-project"),
    path("project", project.project_settings, name="project-settings"),
    path("project/keys/<uuid:key_id>/caps", project.change_key_caps, name="key-caps"),
    path("imports", transfers.imports, name="imports"),
    path("compressions", compressions.compressions, name="compressions"),
    path("compressions/progress", compressions.progress, name="compressions-progress"),
    path(SESSION, session.session, name="session"),
    path(f"{SESSION}/title", session.rename, name="rename"),
    path(f"{SESSION}/status", session.change_status, name="change-status"),
    path(f"{SESSION}/steps", session.steps, name="steps"),
    path(f"{SESSION}/takes/<int:position>", session.take, name="take"),
    path(f"{SESSION}/news", session.news, name="news"),
    path(f"{SESSION}/steps/<int:number>", steps.step, name="step"),
    path(f"{SESSION}/steps/<int:number>/calls", steps.calls, name="calls"),
    path(f"{SESSION}/steps/<int:number>/raw", steps.raw, name="raw"),
    path(f"{SESSION}/steps/<int:number>/blocks/<slug:key>", steps.block, name="block"),
    path(f"{SESSION}/context", context.context, name="context"),
    path(f"{SESSION}/context/blocks/<slug:key>", context.context_block, name="context-block"),
    *(path(f"{SESSION}/{name}", session.tab, {"name": name}, name=name) for name in TABS),
    path(f"{SESSION}/rewinds", rewinds.rewind, name="rewind"),
    path(f"{SESSION}/rewinds/<int:position>/undo", rewinds.undo, name="undo"),
    path(f"{SESSION}/rewinds/<int:position>/dismiss", rewinds.dismiss, name="dismiss"),
    path(f"{SESSION}/forks", rewinds.fork, name="fork"),
    path(f"{SESSION}/settings", session_settings.session_settings, name="session-settings"),
    path(f"{SESSION}/caps", project.change_session_caps, name="session-caps"),
    path(f"{SESSION}/summaries/new", summaries.write_summary, name="write-summary"),
    path(f"{SESSION}/compressions/new", compression_forms.compress, name="compress"),
    path(f"{SESSION}/compressions/<uuid:run_id>", compressions.compression, name="compression"),
    path(f"{SESSION}/compressions/<uuid:run_id>/cancel", compressions.cancel, name="cancel-compression"),
    path(f"{SESSION}/compressions/<uuid:run_id>/retry", compressions.retry, name="retry-compression"),
    path(f"{SESSION}/comparisons/new", compression_forms.compare, name="compare"),
    path(f"{SESSION}/comparisons/<uuid:comparison_id>", compressions.comparison, name="comparison"),
    path(f"{SESSION}/exports/<slug:format>", transfers.export, name="export"),
]
