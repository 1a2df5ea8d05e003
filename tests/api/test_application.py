"""What the django-ninja application assumes about its endpoints."""

from inspect import unwrap
from typing import get_args, get_type_hints

from django.http.response import HttpResponseBase

from historyapp.api.responses import LongResponse
from historyapp.api.root import api


def test_every_endpoint_makes_its_own_response() -> None:
    operations = [
        operation
        for _, router in api._routers
        for path in router.path_operations.values()
        for operation in path.operations
    ]
    assert len(operations) > 50
    for operation in operations:
        returned = get_type_hints(unwrap(operation.view_func))["return"]
        types = set(get_args(returned) or [returned]) - {LongResponse}
        assert all(issubclass(type, HttpResponseBase) for type in types)
        assert operation.signature.response_arg is None
