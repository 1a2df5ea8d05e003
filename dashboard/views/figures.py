"""The figures of a project: activity in a date range, running steps and recent failures."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, current_project, projects, signed_in
from dashboard.figures.project import FiguresPage, read_name, read_order, read_span
from historyapp.models.recent import active_sessions, newest_failures, running_compressions
from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.services.figures.project_figures import TOO_SLOW, recorded_days


@signed_in
@require_safe
def figures(request: PersonRequest) -> HttpResponse:
    """The page; for htmx, everything except the tables."""
    own_projects = projects(request)
    project = current_project(request, own_projects)
    with limit_statements(LIST_SECONDS, TOO_SLOW):
        recorded = recorded_days(project.pk, read_name(request.GET, "agent"))
        span = read_span(request.GET, recorded.first)
        context = {
            "project": project,
            "projects": own_projects,
            "shown": FiguresPage(project.pk, span, read_order(request.GET), recorded),
            "at_work": active_sessions(project.pk, span.agent),
            "runs": running_compressions(project.pk, span.agent),
            "failures": newest_failures(project.pk, span.first, span.last, span.agent),
        }
        is_part = request.htmx and not request.htmx.history_restore_request
        return render(request, "figures/_live.html" if is_part else "figures/page.html", context)
