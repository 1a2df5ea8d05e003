"""Addresses of the dashboard. Fragments answer htmx, and lead everybody else to the page they are on."""

from django.urls import path

from dashboard.tabs import TABS
from dashboard.views import (
    compressing,
    compressions,
    context,
    exports,
    forks,
    imports,
    preferences,
    rewinds,
    session,
    session_settings,
    sessions,
    sign_in,
    steps,
    summaries,
    tabs,
)

urlpatterns = [
    path("", sessions.sessions, name="sessions"),
    path("sign-in", sign_in.sign_in, name="sign-in"),
    path("sign-in/<str:token>", sign_in.sign_in_by_link, name="sign-in-by-link"),
    path("sign-out", sign_in.sign_out, name="sign-out"),
    path("theme", preferences.theme, name="theme"),
    path("projects/<uuid:project_id>/switch", preferences.switch_project, name="switch-project"),
    path("imports", imports.imports, name="imports"),
    path("compressions", compressions.compressions, name="compressions"),
    path("compressions/progress", compressions.progress, name="compressions-progress"),
    path("sessions/<uuid:session_id>", session.session, name="session"),
    path("sessions/<uuid:session_id>/title", session.rename, name="rename"),
    path("sessions/<uuid:session_id>/status", session.change_status, name="change-status"),
    path("sessions/<uuid:session_id>/steps", session.steps, name="steps"),
    path("sessions/<uuid:session_id>/takes/<int:position>", session.take, name="take"),
    path("sessions/<uuid:session_id>/news", session.news, name="news"),
    path("sessions/<uuid:session_id>/steps/<int:number>", steps.step, name="step"),
    path("sessions/<uuid:session_id>/steps/<int:number>/calls", steps.calls, name="calls"),
    path("sessions/<uuid:session_id>/steps/<int:number>/raw", steps.raw, name="raw"),
    path("sessions/<uuid:session_id>/steps/<int:number>/blocks/<slug:key>", steps.block, name="block"),
    path("sessions/<uuid:session_id>/context", context.context, name="context"),
    path("sessions/<uuid:session_id>/context/blocks/<slug:key>", context.context_block, name="context-block"),
    *(path(f"sessions/<uuid:session_id>/{name}", tabs.tab, {"name": name}, name=name) for name in TABS),
    path("sessions/<uuid:session_id>/rewinds", rewinds.rewind, name="rewind"),
    path("sessions/<uuid:session_id>/rewinds/<int:position>/undo", rewinds.undo, name="undo"),
    path("sessions/<uuid:session_id>/rewinds/<int:position>/dismiss", rewinds.dismiss, name="dismiss"),
    path("sessions/<uuid:session_id>/forks", forks.fork, name="fork"),
    path("sessions/<uuid:session_id>/settings", session_settings.session_settings, name="session-settings"),
    path("sessions/<uuid:session_id>/summaries/new", summaries.write_summary, name="write-summary"),
    path("sessions/<uuid:session_id>/compressions/new", compressing.compress, name="compress"),
    path(
        "sessions/<uuid:session_id>/compressions/<uuid:run_id>", compressions.compression, name="compression"
    ),
    path(
        "sessions/<uuid:session_id>/compressions/<uuid:run_id>/cancel",
        compressions.cancel,
        name="cancel-compression",
    ),
    path(
        "sessions/<uuid:session_id>/compressions/<uuid:run_id>/retry",
        compressions.retry,
        name="retry-compression",
    ),
    path("sessions/<uuid:session_id>/comparisons/new", compressing.compare, name="compare"),
    path(
        "sessions/<uuid:session_id>/comparisons/<uuid:comparison_id>",
        compressions.comparison,
        name="comparison",
    ),
    path("sessions/<uuid:session_id>/exports/<slug:format>", exports.export, name="export"),
]
