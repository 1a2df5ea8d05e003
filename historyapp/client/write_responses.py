"""Responses to writes. Their fields are not known while the write waits in the spool."""

from typing import TYPE_CHECKING, Any, Self, cast

from historyapp.client.errors import NotYetKnown
from historyapp.wire.base import ResponseModel
from historyapp.wire.entries import AppendedOut, RegisteredOut


class SpoolableResponse(ResponseModel):
    """The response to a write."""

    @classmethod
    def in_spool(cls) -> Self:
        """The response to a write that is still in the spool."""
        return cast(Self, cls.model_construct())

    @property
    def spooled(self) -> bool:
        """Whether the write waits on disk for the server. Then the other fields raise ``NotYetKnown``."""
        return "head" not in self.__dict__

    if not TYPE_CHECKING:  # with it, a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                detail = f"`{name}` is not known yet: this write waits in the spool. Call flush() to send it."
                raise NotYetKnown(detail)
            return super().__getattr__(name)


class Appended(SpoolableResponse, AppendedOut):
    """The response to an append."""


class Registered(SpoolableResponse, RegisteredOut):
    """The response to a registered action, result or step."""
