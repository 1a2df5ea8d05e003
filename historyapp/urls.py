"""All addresses: health checks, metrics, the API and the dashboard."""

from django.urls import include, path

from dashboard.admin import site
from historyapp import health
from historyapp.api.catalogue import catalogue
from historyapp.api.root import api
from historyapp.metrics import metrics

handler400 = "historyapp.api.application.bad_request"
handler500 = "dashboard.errors.server_error"
urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics),
    path("api/v1/", api.urls),
    path("docs/errors", catalogue, name="errors"),
    path("admin/", site.urls),
    path("", include("dashboard.urls")),
]
