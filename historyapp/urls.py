"""Every address of the product: the machines' health checks, the agents' API, the people's dashboard."""

from importlib import import_module
from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

from historyapp import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
]
if find_spec("historyapp.api.root"):
    urlpatterns.append(path("api/v1/", import_module("historyapp.api.root").api.urls))
if find_spec("dashboard.urls"):
    urlpatterns.append(path("", include("dashboard.urls")))
