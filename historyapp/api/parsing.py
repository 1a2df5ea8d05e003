"""Parses requests: strictly, once, and without writing any of their content to the server's log."""

from json import JSONDecodeError
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict
from ninja.parser import Parser

from historyapp.core.json import MAX_DEPTH, TooDeep, TooManyValues, parse_strict
from historyapp.core.json_counts import holds_more_containers
from historyapp.core.standard_json import InvalidNumber
from historyapp.models.large_reads import move_for_slow_json, move_to_other_process
from historyapp.wire.problems import LengthRequired, Malformed, NotValid, TooLarge, UnsupportedMediaType

_DRAIN_FACTOR = 4
"""A refused body of up to this many times the limit is read and dropped."""
MANY_CONTAINERS = 20_000
"""Lists and objects in a body that the web process reads. Validating 100,000 objects stops all other threads
for a fraction of a second.
"""


def check_length(request: HttpRequest) -> None:
    """Refuses a body that is too large before any of it is parsed."""
    if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", ""):
        raise LengthRequired("Send the body in one piece with a Content-Length, not chunked.")
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdecimal() and int(length) > settings.PLAYHEAD_MAX_BODY:
        # Most clients read the response only after they have sent the body, so a refused body is read
        # and dropped. A much larger body is not read: its sender sees the connection close.
        if int(length) <= _DRAIN_FACTOR * settings.PLAYHEAD_MAX_BODY:
            while request.read(1 << 20):
                pass
        raise TooLarge(
            f"The body is larger than {settings.PLAYHEAD_MAX_BODY:,} bytes (PLAYHEAD_MAX_BODY). Send less.",
            max_body=settings.PLAYHEAD_MAX_BODY,
        )


def check_media_type(request: HttpRequest, required: str) -> None:
    if request.content_type != required:
        received = request.content_type or "none"
        raise UnsupportedMediaType(f"The Content-Type must be {required}; it is {received}.")


class StrictParser(Parser):
    """Strict JSON: UTF-8, no NaN, no numbers out of range, and at most ``MAX_DEPTH`` levels.

    Unlike in most parsers, lone surrogates are accepted and kept.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        check_media_type(request, "application/json")
        body = request.body
        if len(body) < int(request.META.get("CONTENT_LENGTH") or 0):
            raise Malformed("The body ended early: it is shorter than its Content-Length.")
        return parse_json(body)

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        if data is not request.GET:
            check_media_type(request, "multipart/form-data")
        for name in data:
            if name not in list_fields and len(data.getlist(name)) > 1:
                raise NotValid(f"{name} is given {len(data.getlist(name))} times. Give it once.")
        return super().parse_querydict(data, list_fields, request)


def parse_json(body: bytes) -> Any:
    """The value of a JSON text. A request whose text takes long to handle moves to another process.

    Raises:
        Malformed: when it is not valid JSON; the error names the place.
        NotValid: when it is nested too deeply, or contains too many values.
    """
    try:
        text = body.decode("utf-8")
        if holds_more_containers(text, MANY_CONTAINERS):
            move_to_other_process()
        move_for_slow_json(text)
        return parse_strict(text)
    except UnicodeDecodeError as error:
        raise Malformed(f"The body is not valid UTF-8: byte {error.start} cannot be read.") from error
    except JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"The body is not valid JSON: {error.msg} at {place}.") from error
    except InvalidNumber as error:
        raise Malformed(f"The body contains {error}.") from error
    except TooManyValues as error:
        raise NotValid(f"The body contains {error}. Send fewer in one request.") from error
    except TooDeep as error:
        raise NotValid(f"The body is nested deeper than {MAX_DEPTH} levels.") from error
