"""Django's settings. Operators set environment variables, which docs/settings.md lists."""

from errno import ENOSPC
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from historyapp import env
from historyapp.core.prices import load_prices
from historyapp.data_folder import data_folder
from historyapp.database import database
from historyapp.full_disk import full_disk
from historyapp.redis_values import TIME_LIMITS
from historyapp.secret import secret_key

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None
"""The repository, or None in the installed wheel, where templates and static files are in ``dashboard``."""

env.read_secrets()
PLAYHEAD_HOME = data_folder()
try:
    PLAYHEAD_HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
    SECRET_KEY = env.text("SECRET_KEY") or secret_key(PLAYHEAD_HOME / "secret_key")
except OSError as error:
    advice = full_disk(PLAYHEAD_HOME) if error.errno == ENOSPC else "Name a writable folder."
    raise ImproperlyConfigured(
        f"PLAYHEAD_HOME={PLAYHEAD_HOME} cannot be used: {error.strerror}. {advice}"
    ) from error

PLAYHEAD_API_KEY = env.token("PLAYHEAD_API_KEY")
PLAYHEAD_BASE_URL = env.origin("PLAYHEAD_BASE_URL")
PLAYHEAD_DISK_ALARM = env.size("PLAYHEAD_DISK_ALARM", default=1 << 30)
PLAYHEAD_LAG_ALARM = env.number("PLAYHEAD_LAG_ALARM", default=300, maximum=604_800)
PLAYHEAD_LOG_FORMAT = env.choice("PLAYHEAD_LOG_FORMAT", ("TEXT", "JSON"), default="TEXT")
PLAYHEAD_LOG_REQUESTS = env.boolean("PLAYHEAD_LOG_REQUESTS")
PLAYHEAD_METRICS_TOKEN = env.token("PLAYHEAD_METRICS_TOKEN")
PLAYHEAD_MAX_BODY = env.size("PLAYHEAD_MAX_BODY", default=32 * 1024 * 1024)
PLAYHEAD_LARGE_REQUEST = env.size("PLAYHEAD_LARGE_REQUEST", default=4 * 1024 * 1024)
PLAYHEAD_HEAD_SECONDS = env.number("PLAYHEAD_HEAD_SECONDS", default=20, maximum=3600)
PLAYHEAD_BODY_SECONDS = env.number("PLAYHEAD_BODY_SECONDS", default=300, maximum=86_400)
PLAYHEAD_STALL_SECONDS = env.number("PLAYHEAD_STALL_SECONDS", default=10, maximum=3600)
PLAYHEAD_MIN_RATE = env.size("PLAYHEAD_MIN_RATE", default=4096)
PLAYHEAD_QUEUE_SECONDS = env.number("PLAYHEAD_QUEUE_SECONDS", default=20, maximum=3600)
PLAYHEAD_CLIENT_REQUESTS = env.number("PLAYHEAD_CLIENT_REQUESTS", default=256)
PLAYHEAD_CLIENT_CALLS = env.number("PLAYHEAD_CLIENT_CALLS", default=16)
PLAYHEAD_CLIENT_STREAMS = env.number("PLAYHEAD_CLIENT_STREAMS", default=1000)
PLAYHEAD_CLIENT_CONNECTIONS = env.number("PLAYHEAD_CLIENT_CONNECTIONS", default=2000)
PLAYHEAD_CLIENT_BYTES = env.size("PLAYHEAD_CLIENT_BYTES", default=256 * 1024 * 1024)
PLAYHEAD_CLIENT_UNREAD = env.size("PLAYHEAD_CLIENT_UNREAD", default=256 * 1024 * 1024)
PLAYHEAD_ALL_UNREAD = env.size("PLAYHEAD_ALL_UNREAD", default=1 << 30)
PLAYHEAD_PRICES = env.file("PLAYHEAD_PRICES")
try:
    if PLAYHEAD_PRICES:  # checked now, so that an error ends the start
        load_prices(PLAYHEAD_PRICES)
except ValueError as error:
    raise ImproperlyConfigured(f"PLAYHEAD_PRICES: {error}") from error

REDIS_URL = env.redis("REDIS_URL")
PLAYHEAD_CONCURRENCY = env.number("PLAYHEAD_CONCURRENCY", default=8, maximum=256)
PLAYHEAD_RATE_LIMITS = env.rates("PLAYHEAD_RATE_LIMITS")
PLAYHEAD_MODEL_WINDOW = env.number(
    "PLAYHEAD_MODEL_WINDOW", default=100_000, minimum=1000, maximum=100_000_000
)
PLAYHEAD_CLAIM_SECONDS = env.number("PLAYHEAD_CLAIM_SECONDS", default=30, maximum=3600)
PLAYHEAD_IDLE_SECONDS = env.number("PLAYHEAD_IDLE_SECONDS", default=60, maximum=86_400)
PLAYHEAD_SWEEP_SECONDS = env.number("PLAYHEAD_SWEEP_SECONDS", default=60, maximum=3600)
PLAYHEAD_CHANGES_DAYS = env.number("PLAYHEAD_CHANGES_DAYS", default=30, maximum=3650)
PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES = env.networks("PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES")

DEBUG = env.boolean("DEBUG")
ALLOWED_HOSTS = [*env.words("ALLOWED_HOSTS"), "localhost", "127.0.0.1", "[::1]"]
if PLAYHEAD_BASE_URL:
    ALLOWED_HOSTS.append(urlsplit(PLAYHEAD_BASE_URL).hostname or "")
    CSRF_TRUSTED_ORIGINS = [PLAYHEAD_BASE_URL]

DATABASES = {"default": database(PLAYHEAD_HOME)}
PLAYHEAD_WRITE_SECONDS = env.number("PLAYHEAD_WRITE_SECONDS", default=20, maximum=3600)
PLAYHEAD_TRANSACTION_SECONDS = env.number(
    "PLAYHEAD_TRANSACTION_SECONDS", default=max(1, min(5, PLAYHEAD_WRITE_SECONDS // 2)), maximum=3600
)
if env.text("PLAYHEAD_TRANSACTION_SECONDS") and PLAYHEAD_TRANSACTION_SECONDS >= PLAYHEAD_WRITE_SECONDS:
    raise ImproperlyConfigured(
        f"PLAYHEAD_TRANSACTION_SECONDS is {PLAYHEAD_TRANSACTION_SECONDS}. It must be less than "
        f"PLAYHEAD_WRITE_SECONDS, which is {PLAYHEAD_WRITE_SECONDS}: a write waits no longer for another one."
    )
PLAYHEAD_STATEMENT_SECONDS = env.number("PLAYHEAD_STATEMENT_SECONDS", default=60, maximum=3600)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# The cache stores until when providers asked to wait. Workers share it.
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"serializer": "historyapp.redis_values.NumberSerializer", **TIME_LIMITS},
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}
# The API checks JSON bodies itself; this is Django's own limit.
DATA_UPLOAD_MAX_MEMORY_SIZE = PLAYHEAD_MAX_BODY

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "historyapp",  # before Ninja, which it imports without Django's tools for tests
    "ninja",
    "dashboard",
]
MIDDLEWARE = [
    "historyapp.middleware.RequestMiddleware",
    "historyapp.middleware.HeadMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "historyapp.middleware.CompressionMiddleware",
    "historyapp.static.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "dashboard.long_words.LongWords",
    "dashboard.errors.ErrorPages",
]
# Agents' requests have a key and no cookies, and the responses are JSON: see historyapp/wsgi.py.
API_MIDDLEWARE = [
    "historyapp.middleware.RequestMiddleware",
    "historyapp.middleware.HeadMiddleware",
    "historyapp.middleware.ApiMiddleware",
]
ROOT_URLCONF = "historyapp.urls"
WSGI_APPLICATION = "historyapp.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [CHECKOUT / "templates"] if CHECKOUT else [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ],
        },
    },
]

STATIC_URL = "/static/"
STATICFILES_DIRS = [CHECKOUT / "static"] if CHECKOUT else []
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "historyapp.static.HashedStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False

LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "UserAttributeSimilarityValidator")
]

# Browsers share cookies between ports: other Django programs on localhost use the default names.
SESSION_COOKIE_NAME = "playhead_session"
CSRF_COOKIE_NAME = "playhead_csrf"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PLAYHEAD_BASE_URL.startswith("https:")
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# Agents' texts are untrusted, so nothing inline runs: scripts and styles come from our own files only.
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": f"historyapp.log.{'JsonLine' if PLAYHEAD_LOG_FORMAT == 'JSON' else 'OneLine'}"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        # A 4xx is the client's error, not the server's.
        "django.request": {"level": "ERROR"},
        "historyapp.requests": {"level": "INFO" if PLAYHEAD_LOG_REQUESTS else "WARNING"},
    },
}
