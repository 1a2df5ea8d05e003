"""Every address of the product: the machines' health checks, the agents' API, the people's dashboard."""

from contextlib import suppress

from django.urls import URLPattern, URLResolver, include, path

from historyapp import health
from historyapp.api.root import api

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("api/v1/", api.urls),
]
with suppress(ImportError):  # while its views are being written
    urlpatterns.append(path("", include("dashboard.urls")))
