"""Tools whose input is one text: the function the model is shown for one, and the text out of its calls."""

from typing import Any

import msgspec

from appliance.errors import BadRequest
from appliance.vocab.request import Tool

_TEXT: dict[str, Any] = {"type": "string"}


class Syntax(msgspec.Struct):
    """A grammar the input is to follow."""

    syntax: str
    definition: str


class Format(msgspec.Struct):
    """What form the input has, as clients say it: a grammar stands in its own object, or beside the type."""

    type: str = "text"
    grammar: Syntax | None = None
    syntax: str | None = None
    definition: str | None = None


def custom_tool(place: str, name: str, description: str | None, format: Format | None) -> Tool:
    """The function for a tool with one text as its input.

    A regular expression binds what the model writes; a grammar in lark is told to it, and binds calls that are
    forced. Raises BadRequest naming the JSON path.
    """
    said, text, lark, grammar = description or "", _TEXT, "", _grammar(f"{place}.format", format or Format())
    if grammar is not None:
        said = f"{said}\n\nThe form of `input`:\n{grammar.definition}"
        if grammar.syntax == "regex":
            text = {**_TEXT, "pattern": f"^(?:{grammar.definition})$"}
        else:
            lark = grammar.definition
    parameters = {"type": "object", "properties": {"input": text}, "required": ["input"]}
    return Tool(name=name, description=said, parameters=parameters, strict="pattern" in text, grammar=lark)


def arguments_of(text: str) -> str:
    """The call's JSON for a text."""
    return msgspec.json.encode({"input": text}).decode()


def free_text(arguments: str) -> str:
    """The text out of a call's JSON; a call that is not that is the text."""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments
    match value:
        case {"input": str(text)}:
            return text
        case _:
            return arguments


def _grammar(place: str, format: Format) -> Syntax | None:
    match format:
        case Format(type="text"):
            return None
        case Format(type="grammar", grammar=Syntax(syntax="lark" | "regex") as grammar):
            return grammar
        case Format(type="grammar", syntax=("lark" | "regex") as syntax, definition=str(definition)):
            return Syntax(syntax, definition)
        case Format(type="grammar"):
            raise BadRequest(
                f"`{place}`: a grammar needs a `definition` and its `syntax`, 'lark' or 'regex'", param=place
            )
        case _:
            raise BadRequest(f"`{place}.type` must be 'text' or 'grammar'", param=f"{place}.type")
