"""How a call is held to its format: grammar expressions for one call, from its tool's name and schema."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.text.json_body import dump
from appliance.text.lark import ANY, Lark, Unfit, either, quoted
from appliance.text.openings import Opening
from appliance.text.typed import kinds, target

Schema = Mapping[str, Any]
Call = Callable[[Lark, str, Schema], str]
"""The expression of one call: its tool's name, and the schema of the arguments."""


@dataclass(frozen=True, slots=True)
class Form:
    """Calls stand between `begin` and `end`, `between` separates them; with `each` every one has begin and end.

    `opening` is the tag in it that nothing but a call begins with: text that is free until then is bound behind it.
    It is empty where there is none; `close` may stand behind calls that it opened and that nothing ends. `openings`
    are the other ways in which calls begin. `exact`: these are all there are, so that no call can be read that was
    not held to its form. `barred` are patterns that free text does not contain. `single`: the tag behind a call ends
    the answer.
    """

    call: Call
    begin: str = ""
    between: str = ""
    end: str = ""
    each: bool = False
    opening: str = ""
    close: str = ""
    openings: tuple[Opening, ...] = ()
    exact: bool = True
    barred: tuple[str, ...] = ()
    single: bool = False


# --- JSON


def json_call(head: str = '{"name": "', middle: str = '", "arguments": ', tail: str = "}") -> Call:
    """An object with name and arguments, or whatever stands around these two."""
    return lambda lark, name, schema: f"{lark.text(head + name + middle)} {lark.json(schema)} {lark.text(tail)}"


# --- parameters in tags


@dataclass(frozen=True, slots=True)
class Tags:
    """`{name}` in `head`, `{key}` and `{kind}` in `key` are replaced. `text` and `other` are what `{kind}` is for a
    string and for anything else.
    """

    head: str
    key: str
    end: str
    tail: str
    text: str = ""
    other: str = ""

    def call(self, lark: Lark, name: str, schema: Schema) -> str:
        """See Call. Raises Unfit."""
        parts = [lark.text(self.head.replace("{name}", name))]
        for key, value, required in parameters(schema):
            kind = self.text if _says_text(value, schema) else self.other.replace("{type}", _type(value, schema))
            head = lark.text(self.key.replace("{key}", key).replace("{kind}", kind))
            parameter = lark.rule(f"{head} {bare(lark, value, schema, self.end)}")
            parts.append(parameter if required else f"{parameter}?")
        return " ".join((*parts, lark.text(self.tail)))


def parameters(schema: Schema) -> list[tuple[str, Schema, bool]]:
    """The parameters by name, schema and whether they must be there, in their order. Raises Unfit."""
    schema = _resolved(schema, schema)
    if beyond := sorted(_BEYOND & schema.keys()):
        raise Unfit(f"`{beyond[0]}` of its parameters")
    known: Mapping[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or []
    more = {key: schema.get("additionalProperties", {}) for key in required if key not in known}
    found = [(key, _as_schema(value), key in required) for key, value in (*known.items(), *more.items())]
    if bad := next((key for key, _, _ in found if not key or set(key) & set("<>\n\"'=")), None):
        raise Unfit(f"the name of parameter {bad!r}")
    return found


def bare(lark: Lark, schema: Schema, root: Schema, end: str) -> str:
    """A parameter's value as bare text, and the tag behind it; it reads back as a value that validates."""
    schema = _resolved(schema, root)
    allowed = kinds(schema, root)
    if "string" in allowed:
        return _text(lark, schema, root, end)
    if allowed:
        return f"{lark.json(with_definitions(schema, root))} {lark.text(end)}"
    if schema.keys() & _CONSTRAINTS:
        raise Unfit("a parameter whose type is left open")
    return lark.until(end, ANY, _NO_RAW)


def _text(lark: Lark, schema: Schema, root: Schema, end: str) -> str:
    if (options := _options(schema)) is not None:
        texts = [option for option in options if isinstance(option, str) and end not in option]
        if not texts:
            raise Unfit("an enum without a usable text")
        return either([lark.text(text + end) for text in texts])
    for word in ("anyOf", "oneOf"):
        for branch in schema.get(word, ()):
            if "string" in kinds(branch, root):
                return _text(lark, _resolved(branch, root), root, end)
    if found := sorted(_BEYOND_TEXT & schema.keys()):
        raise Unfit(f"`{found[0]}` of a text")
    return lark.until(end, *text_patterns(schema), _NO_RAW)


def text_patterns(schema: Schema) -> list[str]:
    """Regular expressions that all match a text that validates."""
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    patterns = [f"(?s:.{{{int(least)},{'' if most is None else int(most)}}})" if least or most is not None else ANY]
    if (pattern := schema.get("pattern")) is not None:
        before = "" if pattern.startswith("^") else ANY
        behind = "" if pattern.endswith("$") and not pattern.endswith("\\$") else ANY
        patterns.append(f"{before}({pattern.removeprefix('^')[: None if behind else -1]}){behind}")
    return patterns


# --- Python


def python_call(lark: Lark, name: str, schema: Schema) -> str:
    """`name(key=value, …)`; JSON's values are read as well as Python's."""
    return f"{lark.text(name + '(')} {python_arguments(lark, schema)}"


def python_arguments(lark: Lark, schema: Schema) -> str:
    """What stands behind the opening bracket."""
    members = [
        (f"{lark.text(key + '=')} {lark.json(with_definitions(value, schema))}", required)
        for key, value, required in parameters(schema)
    ]
    return f"{listed(lark, members, ', ')} {lark.text(')')}"


def listed(lark: Lark, members: Sequence[tuple[str, bool]], between: str) -> str:
    """The members in their order, those that need not be there left out or not, `between` them."""
    first, more = '""', '""'
    for expression, required in reversed(members):
        member = lark.rule(expression)
        begun = f"{lark.text(between)} {member} {more}"
        alone = f"{member} {more}"
        first = alone if required else lark.rule(f"{alone} | {first}")
        more = begun if required else lark.rule(f"{begun} | {more}")
    return first


# --- schemas

_BEYOND = frozenset({
    "anyOf", "oneOf", "allOf", "not", "if", "patternProperties", "minProperties", "maxProperties", "propertyNames",
    "dependentRequired", "dependentSchemas", "dependencies", "enum", "const", "unevaluatedProperties",
})  # fmt: skip
_BEYOND_TEXT = frozenset({"allOf", "not", "if"})
_CONSTRAINTS = frozenset({"not", "if", "allOf", "enum", "const"})
_MOST_REFERENCES = 8
_DEFINED = ("#/$defs/", "#/definitions/")
_NO_RAW = f"~{quoted('<![CDATA[')}{ANY}"
"""A text that begins like this would be read as something else."""


def with_definitions(schema: Schema, root: Schema) -> Schema:
    """A part of a schema that can stand alone. Raises Unfit where it refers to what is no definition."""
    definitions = {word: root[word] for word in ("$defs", "definitions") if word in root}
    stray = [reference for reference in _references(schema) if not reference.startswith(_DEFINED)]
    if stray:
        raise Unfit(f"the reference {stray[0]!r}")
    return {**schema, **definitions} if definitions else schema


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in _references(item)]
    if not isinstance(schema, Mapping):
        return []
    here = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return here + [found for value in schema.values() for found in _references(value)]


def _resolved(schema: Any, root: Schema) -> Schema:
    """The schema that a reference means."""
    for _ in range(_MOST_REFERENCES):
        found = _as_schema(schema)
        if not isinstance(reference := found.get("$ref"), str):
            return found
        schema = target(reference, root)
    raise Unfit("a reference to itself")


def _as_schema(schema: Any) -> Schema:
    if isinstance(schema, Mapping):
        return schema
    if schema is True or schema is None:
        return {}
    raise Unfit("a parameter that nothing validates")


def _options(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    options = schema.get("enum")
    return list(options) if isinstance(options, list) else None


def _says_text(schema: Schema, root: Schema) -> bool:
    allowed = kinds(_resolved(schema, root), root)
    return "string" in allowed or not allowed


def _type(schema: Schema, root: Schema) -> str:
    allowed = kinds(_resolved(schema, root), root)
    return next((kind for kind in ("object", "array", "boolean", "null") if kind in allowed), "number")


# --- Gemma's own notation: like JSON, keys bare, strings between marks and not escaped


def marked(mark: str) -> Call:
    """`name{key:value,…}` with strings between two `mark`s."""

    def call(lark: Lark, name: str, schema: Schema) -> str:
        return f"{lark.text('call:' + name)} {_members(lark, schema, schema, mark)}"

    return call


def _members(lark: Lark, schema: Schema, root: Schema, mark: str) -> str:
    members = [
        (f"{lark.text(key + ':')} {_marked(lark, value, root, mark)}", required)
        for key, value, required in parameters(schema)
    ]
    return f"{lark.text('{')} {listed(lark, members, ',')} {lark.text('}')}"


def _marked(lark: Lark, schema: Schema, root: Schema, mark: str) -> str:
    schema = _resolved(schema, root)
    if (options := _options(schema)) is not None:
        return either([lark.text(f"{mark}{o}{mark}" if isinstance(o, str) else dump(o)) for o in options])
    allowed = kinds(schema, root)
    if "string" in allowed or not allowed:
        if schema.keys() & (_BEYOND_TEXT | {"anyOf", "oneOf"}):
            raise Unfit("a text with branches")
        return f"{lark.text(mark)} {lark.until(mark, *text_patterns(schema))}"
    if schema.keys() & {"anyOf", "oneOf", "allOf", "not", "if"}:
        raise Unfit("a parameter with branches")
    if "object" in allowed:
        return lark.rule(_members(lark, schema, root, mark))
    if "array" in allowed:
        if schema.keys() & {"minItems", "maxItems", "uniqueItems", "prefixItems", "contains"}:
            raise Unfit("a list with bounds")
        item = lark.rule(_marked(lark, schema.get("items", {}), root, mark))
        return f"{lark.text('[')} ({item} ({lark.text(',')} {item})*)? {lark.text(']')}"
    return lark.json(schema)
