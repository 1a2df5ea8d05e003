"""The WSGI application, for granian (``playhead up``) or any other WSGI server."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")
application = get_wsgi_application()
