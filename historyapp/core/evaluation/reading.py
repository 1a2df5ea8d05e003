"""What an evaluation keeps of each entry that it reads: the texts in which it searches for names."""

from sys import getsizeof

from historyapp.core.entries import (
    Body,
    ModelInput,
    ModelOutput,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
    text_of,
)
from historyapp.core.evaluation.targets import argument_texts
from historyapp.core.results import returned_text


def texts_only(body: Body) -> tuple[Body, int]:
    """The entry with nothing but the texts that :func:`historyapp.core.evaluation.targets.targets` reads, and
    the bytes that they take in memory.

    Raw messages, images and many short values take more memory than their texts.
    """
    match body:
        case ModelOutput():
            return _output(body)
        case ToolResults():
            texts = [returned_text(result) for result in body.results]
            results = [
                ToolResult(tool_call_id=result.tool_call_id, status="success", outputs=text)
                for result, text in zip(body.results, texts, strict=True)
            ]
            return ToolResults(results=tuple(results)), sum(map(getsizeof, texts))
        case ModelInput():
            text = text_of(body.content)
            return ModelInput(channel=body.channel, content=text), getsizeof(text)
        case _:
            return body, getsizeof(text_of(body.message_content))


def _output(output: ModelOutput) -> tuple[ModelOutput, int]:
    """The output with all its arguments in its first tool call. Results find their calls by the ids."""
    thoughts, arguments = output.thoughts_text, "\n".join(argument_texts(output))
    calls = [ToolCall(id=tool_call.id, name=tool_call.name, arguments="") for tool_call in output.tool_calls]
    action = output.use_tool and UseTool(name=output.use_tool.name)
    if calls:
        calls[0] = ToolCall(id=calls[0].id, name=calls[0].name, arguments=arguments)
    elif action:
        action = UseTool(name=action.name, arguments={"": arguments})
    kept = ModelOutput(thoughts=thoughts, text=output.text, tool_calls=tuple(calls), use_tool=action)
    return kept, sum(map(getsizeof, (thoughts, output.text, arguments)))
