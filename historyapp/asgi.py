"""The ASGI application, for an existing ASGI server."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")
application = get_asgi_application()
