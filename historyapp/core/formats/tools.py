"""Tool definitions, given in any provider's shape, in the shape that one provider takes.

So one session can plan with one provider and execute with another, with the same tools.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from historyapp.core.errors import Invalid
from historyapp.core.formats.turns import legal_name
from historyapp.core.text import clean, clean_value, depth_exceeds

Definition = Mapping[str, Any]
_NO_ARGUMENTS = {"type": "object", "properties": {}}


class Tool(NamedTuple):
    """A function that a model may call. ``schema`` is a JSON schema of type object."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None = None


def tool_of(definition: Any) -> Tool:
    """A definition as OpenAI chat nests it, as OpenAI responses and MCP write it, or as Anthropic does.

    Raises:
        Invalid: without a legal name, with parameters that are no JSON schema of an object, or for tools that
            are no functions (web search …), which belong to one provider.
    """
    told = definition.get("function", definition) if isinstance(definition, Mapping) else None
    if not isinstance(told, Mapping):
        raise Invalid("A tool must be an object with a name, a description and parameters.")
    if definition.get("type") not in (None, "function", "custom") or "format" in told:
        kind = str(definition.get("type"))[:64]
        raise Invalid(f"A tool of type {kind!r} is no function; only those can be rendered.")
    name, description = told.get("name"), told.get("description") or ""
    if not isinstance(name, str) or legal_name(name) != name:
        raise Invalid(f"A tool's name must be 1 to 64 letters, digits, _ and -, not {str(name)[:80]!r}.")
    if not isinstance(description, str):
        raise Invalid(f"The description of tool {name!r} must be text.")
    strict = told.get("strict")
    return Tool(name, clean(description), _schema(name, told), strict if isinstance(strict, bool) else None)


def _schema(name: str, told: Definition) -> dict[str, Any]:
    given = [told[key] for key in ("parameters", "input_schema", "inputSchema") if told.get(key) is not None]
    schema = given[0] if given else _NO_ARGUMENTS
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or depth_exceeds(schema):
        raise Invalid(f"The parameters of tool {name!r} must be a JSON schema of type object.")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise Invalid(f"In the schema of tool {name!r}, properties must be an object and required a list.")
    cleaned: dict[str, Any] = clean_value(dict(schema))
    return {**cleaned, "properties": cleaned.get("properties", {})}


def tools_as(
    shape: Callable[[Tool], dict[str, Any]], definitions: Iterable[Definition]
) -> list[dict[str, Any]]:
    """The tools in a provider's shape.

    Raises:
        Invalid: as :func:`tool_of`, and for two tools of one name.
    """
    tools = [tool_of(definition) for definition in definitions]
    names = [tool.name for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"There is more than one tool with the name {twice[0]!r}.")
    return [shape(tool) for tool in tools]


def openai_chat_tool(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": {**_named(tool), "parameters": tool.schema, **_strict(tool)}}


def openai_responses_tool(tool: Tool) -> dict[str, Any]:
    # The SDK's type requires strict; the API's own default, true, refuses ordinary schemas.
    return {"type": "function", **_named(tool), "parameters": tool.schema, "strict": bool(tool.strict)}


def anthropic_tool(tool: Tool) -> dict[str, Any]:
    return {**_named(tool), "input_schema": tool.schema, **_strict(tool)}


def _named(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description} if tool.description else {"name": tool.name}


def _strict(tool: Tool) -> dict[str, Any]:
    return {} if tool.strict is None else {"strict": tool.strict}
