"""The body of every unsuccessful response."""

from pydantic import BaseModel, Field

from historyapp.core.errors import FieldError
from historyapp.wire.base import with_example
from historyapp.wire.problems import ERRORS_PAGE, MAX_FIELD_ERRORS


class Problem(BaseModel):
    """What went wrong (RFC 9457). Additional fields have values that a program can use."""

    model_config = with_example({
        "type": f"{ERRORS_PAGE}#conflict", "title": "Conflict", "status": 409,
        "detail": "expected_position is 3, but the session's head is 5. "
        "Read what has been appended since and try again.",
        "head": 5,
    })  # fmt: skip

    type: str = Field(description="Identifies the kind of problem. Stable.")
    title: str
    status: int
    detail: str = Field(description="What is wrong with this request, and what to do.")
    errors: list[FieldError] = Field(
        default=[],
        description=f"Where parameters or fields are not valid: the first {MAX_FIELD_ERRORS}.",
    )
    request_id: str = Field(
        default="", description="For status 500 and above: the request's id in the server's log."
    )
