"""The page that a problem document's ``type`` leads to: every kind of error, and what to do about it.

It needs no key, no sign-in and no network. ``docs/errors.md`` says the same; a test holds the two together.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt

from historyapp.api import problems
from historyapp.core import errors
from historyapp.core.errors import PlayheadError
from historyapp.llm.errors import ModelCallError

MEANINGS: dict[type[PlayheadError], str] = {
    problems.Malformed: (
        "The body cannot be read: it is not JSON, not UTF-8, not multipart, or it ended early. `detail` "
        "says where."
    ),
    problems.Unauthenticated: (
        "There is no usable API key in `Authorization: Bearer ph_…`: none, an unknown one, or one that "
        "expired or was revoked."
    ),
    problems.Forbidden: "The key works but lacks the scope that the method needs; `scope` names it.",
    errors.NotFound: (
        "The project has no such session, entry, step or address. What belongs to another project answers "
        "exactly the same."
    ),
    problems.MethodNotAllowed: "The header `Allow` lists the methods that are possible at this address.",
    errors.Conflict: (
        "The request does not fit the session as it stands: `expected_position` is not its head, an "
        "action is in flight already or none is, the last step to summarise is still in flight, the id is "
        "taken, the session is archived, another import of it is under way, or a compression has ended. "
        "Reading the session again and trying anew may help."
    ),
    problems.LengthRequired: "The body came in chunks. Send it in one piece with a `Content-Length`.",
    problems.TooLarge: "The body is larger than `PLAYHEAD_MAX_BODY`.",
    problems.UnsupportedMediaType: (
        "The body must be `application/json`, or `multipart/form-data` for imports."
    ),
    problems.NotValid: (
        "A parameter or a field is not as the call wants it; `errors` names up to 20 of them, each with "
        "`loc` (where) and `message`."
    ),
    errors.Invalid: (
        "Each field is valid on its own, yet the request cannot be carried out: a repeated call id, a "
        "call without a name, a step or position that does not exist, an `Idempotency-Key` "
        "that came with another request."
    ),
    errors.UnreadableTranscript: (
        "None of the files is a transcript in a format that can be imported, or in the one that was "
        "named. `files` names them, `formats` what can be imported."
    ),
    ModelCallError: (
        "A model's provider refused, failed or answered nonsense, and trying again did not help. "
        "`provider` names it, `model` and `address` say what was asked where, `attempts` how often, "
        "`provider_status` is its own status, `words` what it said, `retryable` "
        "whether the same call may succeed later, and `retry_after` for how many seconds it wants to be "
        "left alone. `reason` is one of `request-refused`, `key-refused`, `limit-reached`, "
        "`provider-failed`, `provider-unreachable`, `timed-out` and `answer-broken`; see the page on models."
    ),
    problems.Busy: "The database was busy for too long. `Retry-After` says when to try again.",
    problems.Unexpected: "A fault of the server. Its log has a line that names the place; please report it.",
}
"""In Markdown."""


@require_safe
def catalogue(request: HttpRequest) -> HttpResponse:
    """All kinds of errors, each under its slug."""
    to_html = MarkdownIt("commonmark").render
    kinds = [
        {
            "slug": kind.slug,
            "title": kind.title,
            "status": kind.http_status,
            "meaning": mark_safe(to_html(meaning)),  # noqa: S308 our own words
        }
        for kind, meaning in MEANINGS.items()
    ]
    return render(request, "errors.html", {"kinds": kinds})
