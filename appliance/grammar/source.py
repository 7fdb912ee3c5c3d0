"""Turns what a request asks of its answer's form into llguidance's grammar, and says what is wrong with it. PURE."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from appliance.errors import BadRequest
from appliance.grammar import ebnf
from appliance.vocab.request import Grammar

MAX_SOURCE = 256 * 1024
"""Bytes of grammar text: what is larger takes seconds to compile and would hold up other requests' preparation."""

# White space between JSON's tokens is fixed: a free amount invites small models to write nothing else for ever.
_JSON = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


_BOUNDS: Mapping[str, Mapping[str, float]] = {
    "integer": {"minimum": -(2**53), "maximum": 2**53},  # what JSON readers hold exactly
    "number": {"minimum": -(10**15), "maximum": 10**15, "multipleOf": 1e-9},
}
_SAME = {
    "minimum": {"minimum", "exclusiveMinimum", "const", "enum"},
    "maximum": {"maximum", "exclusiveMaximum", "const", "enum"},
    "multipleOf": {"multipleOf", "const", "enum"},
}
_VALUES = {"const", "enum", "default", "examples"}  # these hold instances, not schemas


@lru_cache(maxsize=256)
def source(grammar: Grammar) -> str:
    """llguidance's own text for a grammar. Raises BadRequest naming `grammar.param` where it is not valid."""
    from llguidance import LLMatcher

    if len(grammar.text) > MAX_SOURCE:
        raise BadRequest(f"the grammar is larger than {MAX_SOURCE} bytes", param=grammar.param)
    try:
        text = _KINDS[grammar.kind](grammar.text)
    except ValueError as error:
        raise BadRequest(f"the {grammar.kind} cannot be used: {error}", param=grammar.param) from error
    failed, messages = LLMatcher.validate_grammar_with_warnings(text)
    if failed:
        raise BadRequest(f"the {grammar.kind} cannot be used: {_first_line(messages[0])}", param=grammar.param)
    return text


def _json_schema(text: str) -> str:
    from llguidance import LLMatcher

    schema = json.loads(text)
    if not isinstance(schema, dict):
        raise ValueError("it must be an object")
    return LLMatcher.grammar_from_json_schema(_ending(schema), defaults=_JSON)  # type: ignore[arg-type]


def _ending(schema: Any) -> Any:
    """The schema with bounds for numbers that have none: a small model would go on writing digits for ever."""
    if isinstance(schema, list):
        return [_ending(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    ending = {key: value if key in _VALUES else _ending(value) for key, value in schema.items()}
    for kind, bounds in _BOUNDS.items():
        if kind == schema.get("type") or (isinstance(schema.get("type"), list) and kind in schema["type"]):
            ending |= {key: bound for key, bound in bounds.items() if not _SAME[key] & schema.keys()}
    return ending


def inline_json(schema: Mapping[str, Any]) -> str:
    """A JSON schema as the body of a rule in a Lark grammar."""
    return f"%json {json.dumps({**_ending(dict(schema)), 'x-guidance': _JSON})}"


def usable(schema: Mapping[str, Any]) -> bool:
    """Whether a grammar can be made of a JSON schema."""
    return _usable(json.dumps(schema))


@lru_cache(maxsize=1024)
def _usable(schema: str) -> bool:
    from llguidance import LLMatcher

    try:
        return not LLMatcher.validate_grammar_with_warnings(_json_schema(schema))[0]
    except ValueError:
        return False


def _json_object(text: str) -> str:
    return _json_schema(json.dumps({"type": "object"}))


def _regex(text: str) -> str:
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_regex(text)


def _lark(text: str) -> str:
    return json.dumps({"grammars": [{"lark_grammar": ebnf.lark(text) if ebnf.is_ebnf(text) else text}]})


def _choice(text: str) -> str:
    choices: list[Any] = json.loads(text)
    if not choices or not all(isinstance(choice, str) and choice for choice in choices):
        raise ValueError("it must be a list of non-empty strings")
    return _lark("start: " + " | ".join(json.dumps(choice) for choice in choices))


_KINDS: dict[str, Callable[[str], str]] = {
    "json_schema": _json_schema,
    "json_object": _json_object,
    "regex": _regex,
    "lark": _lark,
    "choice": _choice,
}


def _first_line(message: str) -> str:
    return message.strip().splitlines()[0][:300]
