"""The errors of the HTTP API, listed once: the server, the client and the documentation use this list.

Each is sent as a problem document (RFC 9457). docs/errors.md is generated from :data:`PROBLEM_TYPES`.
"""

from dataclasses import dataclass

from historyapp.core.errors import (
    AddressNotAllowed,
    Conflict,
    Invalid,
    NotFound,
    PlayheadError,
    UnreadableTranscript,
)

MEDIA_TYPE = "application/problem+json"
ERRORS_PAGE = "/docs/errors"
"""The page of the server that explains every code; see :mod:`historyapp.api.catalogue`."""
MAX_FIELD_ERRORS = 20


class Malformed(PlayheadError):
    """The server cannot read the request: client and server are not compatible."""

    code = "malformed"


class MethodNotAllowed(Malformed):
    code = "method-not-allowed"


class LengthRequired(Malformed):
    code = "length-required"


class UnsupportedMediaType(Malformed):
    code = "unsupported-media-type"


class Unauthenticated(PlayheadError):
    """The API key is missing, unknown, expired or revoked."""

    code = "unauthenticated"


class Forbidden(PlayheadError):
    """The API key lacks a scope."""

    code = "forbidden"

    @property
    def scope(self) -> str | None:
        """The scope that is missing."""
        return self.fields.get("scope")


class SpendForbidden(Forbidden):
    """The request would call a provider's model, which costs money, and the key or person may not spend."""

    code = "spend-forbidden"


class ModelNotAllowed(Invalid):
    """The project has a list of allowed models, and the model is not on it."""

    code = "model-not-allowed"

    @property
    def allowed_models(self) -> tuple[str, ...]:
        """The project's list of allowed models."""
        return tuple(self.fields.get("allowed_models") or ())


class CapReached(PlayheadError):
    """The model call might cost more than a spending cap leaves."""

    code = "spending-cap-reached"

    @property
    def ends_at(self) -> str | None:
        """The start of the cap's next period (RFC 3339)."""
        return self.fields.get("ends_at")


class TooLarge(PlayheadError):
    """The body is larger than the server accepts."""

    code = "too-large"

    @property
    def max_body(self) -> int | None:
        """The limit in bytes."""
        return self.fields.get("max_body")


class HeadTooLarge(PlayheadError):
    """The path, or the query and the headers, are longer than the server accepts."""

    code = "head-too-large"


class NotValid(Invalid):
    """A parameter or a field does not match the OpenAPI document."""

    code = "not-valid"


class SearchTooSlow(Invalid):
    """A search across sessions took longer than the server allows."""

    code = "search-too-slow"


class CursorExpired(PlayheadError):
    """The changes after the cursor are no longer kept."""

    code = "cursor-expired"


class ModelCallFailed(PlayheadError):
    """The provider of a model gave no usable response, and the server's retries did not help."""

    code = "model-call-failed"

    @property
    def provider(self) -> str | None:
        return self.fields.get("provider")

    @property
    def words(self) -> str | None:
        """The provider's own message."""
        return self.fields.get("words")

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.fields.get("retryable") is True


class ServerUnavailable(PlayheadError):
    """The server does not respond, or asks to retry later. In the client: the deadline has passed."""

    code = "busy"

    @property
    def retry_after(self) -> float | None:
        """Seconds after which to retry."""
        return self.fields.get("retry_after")


class StorageFailed(ServerUnavailable):
    """The database cannot be used until somebody fixes the cause."""


class DiskFull(StorageFailed):
    code = "disk-full"


class DiskLow(PlayheadError):
    """The disk is nearly full, and the request would store more than it sends."""

    code = "disk-low"


class DatabaseCorrupt(StorageFailed):
    code = "database-corrupt"


class DatabaseReadOnly(StorageFailed):
    code = "database-read-only"


class DatabaseLocked(StorageFailed):
    code = "database-locked"


class DatabaseUnreachable(StorageFailed):
    code = "database-unreachable"


class TransactionTooLong(ServerUnavailable):
    """Storing the request took too long. Others cannot write meanwhile."""

    code = "transaction-too-long"


class TooManyRequests(ServerUnavailable):
    """This key, address or project sends too many requests at once."""

    code = "too-many-requests"


class BodyTooSlow(ServerUnavailable):
    """The request's body did not arrive in time."""

    code = "body-too-slow"


class ServerFailed(PlayheadError):
    """The server failed to carry out the request."""

    code = "unexpected"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of error. ``meaning`` is one sentence; ``advice`` gives causes, fields and what to do."""

    error: type[PlayheadError]
    """The exception that server and client raise for this problem."""
    status: int
    title: str
    meaning: str
    advice: str

    @property
    def code(self) -> str:
        return self.error.code

    @property
    def uri(self) -> str:
        """The ``type`` of its problem documents."""
        return f"{ERRORS_PAGE}#{self.code}"


PROBLEM_TYPES = (
    ProblemType(
        Malformed, 400, "Malformed request", "The server cannot read the request.",
        "The body is not JSON, not UTF-8, not multipart, or it ended early; `detail` says where. Correct the "
        "request before you send it again.",
    ),
    ProblemType(
        Unauthenticated, 401, "Not authenticated", "The request has no usable API key.",
        "Send `Authorization: Bearer ph_…`. `detail` says whether the key is missing, unknown, expired or "
        "revoked.",
    ),
    ProblemType(
        CapReached, 402, "Spending cap reached",
        "The call of a provider's model might exceed a spending cap.",
        "`subject` (`project`, `session` or `key`), with `session` or the beginning of the `key`, `period`, "
        "`limit` and `spent` (US dollars, running calls included) describe the cap; `ends_at` says when its "
        "next period begins. Wait until then, choose a cheaper model or a smaller output limit, or ask an "
        "owner to raise the cap. While a cap applies, a model, an option or a tool without a known price is "
        "refused.",
    ),
    ProblemType(
        Forbidden, 403, "Not allowed with this key", "The API key lacks the scope that the method needs.",
        "`scope` names the missing scope. Use a key that has it.",
    ),
    ProblemType(
        ModelNotAllowed, 403, "Model not allowed",
        "The project has a list of allowed models, and the model is not on it, or an option or tool of the "
        "request may use another one.",
        "`allowed_models` is the list, and `model` the model. Choose a model of the list, leave the option "
        "or tool out, or ask an owner of the project to change the list. `local` is always allowed.",
    ),
    ProblemType(
        SpendForbidden, 403, "Not allowed to spend",
        "The request would call a provider's model, which costs money, and the API key lacks the scope "
        "`spend`.",
        "For a compression use the model `local`. Otherwise use a key that has the scope, or ask the "
        "operator to grant it with `playhead keys grant`. In the dashboard, ask an owner to start it.",
    ),
    ProblemType(
        NotFound, 404, "Not found", "The project has no such session, entry, step or address.",
        "A session of another project gets the same response. Check the id and the API key's project.",
    ),
    ProblemType(
        MethodNotAllowed, 405, "Method not allowed", "The address does not support this method.",
        "The `Allow` header lists the methods that it supports.",
    ),
    ProblemType(
        Conflict, 409, "Conflict", "The request does not fit the current state of the session.",
        "Possible causes: `expected_position` is not the session's head; an action is already in flight, or "
        "none is; the last step to summarise is still in flight; the id is taken; the session is archived; "
        "another import of the session is running; the compression has ended; an earlier request with this "
        "`Idempotency-Key` is still running (wait for `Retry-After`), its session was purged, or its "
        "response was too long to keep. Read the session again, then retry if the request still makes sense.",
    ),
    ProblemType(
        CursorExpired, 410, "Cursor expired", "The changes after the cursor are no longer kept.",
        "Read the sessions as they are now, and continue without a cursor. `PLAYHEAD_CHANGES_DAYS` says how "
        "long changes are kept.",
    ),
    ProblemType(
        LengthRequired, 411, "Length required", "The body was sent in chunks, without its length.",
        "Send the body with a `Content-Length`.",
    ),
    ProblemType(
        BodyTooSlow, 408, "Body too slow", "The body did not arrive in time.",
        "`detail` gives the time limit and the lowest rate. Send the request again over a faster connection.",
    ),
    ProblemType(
        TooLarge, 413, "Body too large", "The body is larger than `PLAYHEAD_MAX_BODY`.",
        "Forms and model calls have lower limits. `max_body` is the limit in bytes. Send less in one "
        "request, or ask the operator to raise the limit.",
    ),
    ProblemType(
        UnsupportedMediaType, 415, "Unsupported media type", "The server does not read bodies of this type.",
        "Send `application/json`, or `multipart/form-data` for imports.",
    ),
    ProblemType(
        SearchTooSlow, 422, "Search too slow", "The search, list or figures take longer than `detail` says.",
        "Add a word or a filter, or more letters before a `*`. For figures, ask for fewer days.",
    ),
    ProblemType(
        AddressNotAllowed, 422, "Address not allowed", "A webhook's URL leads to a private address.",
        "Use a public URL, or ask the operator to allow `host` with `PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES`.",
    ),
    ProblemType(
        Invalid, 422, "Invalid request", "The request is well formed but cannot be carried out.",
        "Examples: a tool call has no name, two tool calls have the same id, a step or position does not "
        "exist, a budget is too small (`smallest` is one that works), an `Idempotency-Key` was used for "
        "another request. `detail` says what to change.",
    ),
    ProblemType(
        NotValid, 422, "Not valid", "A parameter or a field is not valid.",
        f"`errors` lists up to {MAX_FIELD_ERRORS} of them, each with `loc` (where) and `message` (what is "
        "wrong). The OpenAPI document describes the valid values.",
    ),
    ProblemType(
        UnreadableTranscript, 422, "Unreadable transcript", "None of the files can be imported.",
        "The files have no supported format, or not the format that you named. `files` lists the "
        "files, `formats` the supported formats.",
    ),
    ProblemType(
        TooManyRequests, 429, "Too many requests",
        "This key, this address or this project has too many requests at once.",
        "`detail` names the limit. Wait until some of these requests have ended, at least for the number of "
        "seconds in `Retry-After`.",
    ),
    ProblemType(
        HeadTooLarge, 431, "Request head too large", "The path, or the query and the headers, are too long.",
        "The path may have 4,096 bytes, the query and all headers together 16,384, `Content-Type` 1,000. "
        "Shorten what `detail` names. In a browser, delete the cookies of this host.",
    ),
    ProblemType(
        ModelCallFailed, 502, "Model call failed",
        "The model's provider refused the request, failed, or sent a response that cannot be used.",
        "`reason` is one of `request-refused`, `key-refused`, `limit-reached`, `provider-failed`, "
        "`provider-unreachable`, `timed-out` and `answer-broken`. `provider`, `model` and `address` say what "
        "was called, `attempts` how often; `provider_status` is the provider's HTTP status and `words` its "
        "message. If `retryable` is true, the same request may succeed later; wait `retry_after` seconds "
        "if it is given.",
    ),
    ProblemType(
        ServerUnavailable, 503, "Busy", "The database or all threads were busy for too long.",
        "Send the request again after the number of seconds in `Retry-After`.",
    ),
    ProblemType(
        DiskFull, 503, "Disk full", "The disk of the database is full or refuses writes.",
        "Nothing was written; reading still works. The operator must free space. Send the request again "
        "after the number of seconds in `Retry-After`.",
    ),
    ProblemType(
        DiskLow, 507, "Disk nearly full",
        "The server's disk has less free space than `PLAYHEAD_DISK_ALARM`, and less than 10 % of its size.",
        "Imports, forks, rewinds, recorded contexts, compressions and appends of many entries with totals of "
        "many models are refused. The operator must free space. `record: false` is allowed.",
    ),
    ProblemType(
        DatabaseCorrupt, 503, "Database damaged", "The database file is damaged.",
        "Nothing was written. Writes fail until the operator has repaired the file or restored a "
        "backup: see [Faults of the database](operations.md#faults-of-the-database).",
    ),
    ProblemType(
        DatabaseReadOnly, 503, "Database read-only", "The server may not write to the database.",
        "Nothing was written. The operator must make the file and its folder writable for the server, or "
        "make PostgreSQL accept writes.",
    ),
    ProblemType(
        DatabaseLocked, 503, "Database locked", "Another program has locked the database for too long.",
        "Nothing was written. Send the request again after the number of seconds in `Retry-After`. If it "
        "persists, the operator must end the other program.",
    ),
    ProblemType(
        DatabaseUnreachable, 503, "Database unreachable",
        "PostgreSQL does not respond, or the connection to it broke.",
        "If it broke while the request was being stored, the request may have been carried out. Send it "
        "again with the same `Idempotency-Key` after the number of seconds in `Retry-After`.",
    ),
    ProblemType(
        TransactionTooLong, 503, "Transaction too long",
        "Storing the request took longer than `PLAYHEAD_TRANSACTION_SECONDS`.",
        "Nothing was stored, because other writes have to wait meanwhile. Send less at once, in several "
        "requests. If the request is small already, the server is overloaded: send it again after the "
        "number of seconds in `Retry-After`.",
    ),
    ProblemType(
        ServerFailed, 500, "Internal error", "The server failed to carry out the request.",
        "The server's log has the reason. Please report the error.",
    ),
)  # fmt: skip
_BY_CODE = {type.code: type for type in PROBLEM_TYPES}


def problem_type(error: PlayheadError | type[PlayheadError]) -> ProblemType:
    """The problem type of an error."""
    return _BY_CODE[error.code]
