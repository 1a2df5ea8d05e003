"""Saved What ifs of the project."""

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, pages, path_of
from historyapp.wire.what_ifs import WhatIfOut, WhatIfPage


def what_ifs(*, limit: int | None = None) -> Pages[WhatIfOut]:
    """The saved What ifs, in the order in which they were first saved."""
    return pages("/what-ifs", WhatIfPage, limit=limit)


def save_what_if(
    name: str,
    *,
    policy: str | None = None,
    max_tokens: int | None = None,
    format: str | None = None,
    model: str | None = None,
) -> ApiCall[WhatIfOut]:
    """Saves options for building contexts. An earlier What if of the same name is replaced.

    Args:
        max_tokens: None: the session's setting, as for the other arguments.
    """
    fields = {"name": name, "policy": policy, "max_tokens": max_tokens, "format": format, "model": model}
    return ApiCall("PUT", "/what-ifs", WhatIfOut.model_validate, body=drop_nulls(fields))


def delete_what_if(what_if_id: Id) -> ApiCall[None]:
    """Deletes a What if. Sessions that use its settings keep them. Needs the scope ``admin``."""
    return ApiCall("DELETE", path_of("what-ifs", what_if_id), lambda _: None)
