"""Which schemas of tools are invalid."""

from typing import Any

import pytest

from historyapp.core.errors import Invalid
from historyapp.core.formats.schemas import schema_fault
from historyapp.core.formats.tools import tool_of

SOUND = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where.", "default": None, "x-ours": 7},
        "lines": {"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 1},
        "pair": {"type": "array", "items": [{"type": "string"}, True]},
        "mode": {"enum": ["r", "w", 7]},
        "how": {"anyOf": [{"$ref": "#/$defs/how"}, {"type": "null"}]},
        "type": {"type": "object", "properties": {"required": {"type": "boolean"}}},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"how": {"type": "string", "pattern": "^a"}},
}


def test_a_sound_schema_has_no_fault() -> None:
    assert schema_fault(SOUND) is None


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"p": 5}, "the schema, properties.p must be an object, true or false"),
        ({"p": {"type": "strin"}}, "properties.p, type must be of array"),
        ({"p": {"type": []}}, "type must be of array"),
        ({"p": {"type": None}}, "type must be of array"),
        ({"p": {"type": "string", "required": True}}, "required must be a list of names"),
        ({"p": {"enum": "r"}}, "enum must be a list"),
        ({"p": {"description": 7}}, "description must be text"),
        ({"p": {"anyOf": []}}, "anyOf must be a list of schemas"),
        ({"p": {"anyOf": [{}, "x"]}}, r"anyOf\[1\] must be an object"),
        ({"p": {"items": "string"}}, "items must be an object"),
        ({"p": {"not": {"properties": []}}}, "not, properties must be an object"),
    ],
)
def test_a_tool_with_an_invalid_schema_is_refused(properties: dict[str, Any], words: str) -> None:
    definition = {"name": "ls", "parameters": {"type": "object", "properties": properties}}
    with pytest.raises(Invalid, match=f"tool 'ls' are not a JSON schema: .*{words}"):
        tool_of(definition)


def test_required_must_name_properties() -> None:
    with pytest.raises(Invalid, match="required must be a list of names"):
        tool_of({"name": "ls", "parameters": {"type": "object", "required": [5]}})
