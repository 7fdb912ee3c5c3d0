"""How one field of a JSON body is read and, where it cannot be, what the client is told."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from appliance.errors import BadRequest, Unsupported

MAX_DEPTH = 64
"""Deepest nesting of a free-form value (a tool's schema, template arguments)."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Called with a field's name and raw JSON it returns the value; None means not given.

    `use` says what becomes of the field, `kind` is the type it is read as, `says` that type or the reason in words.
    """

    read: Callable[[str, msgspec.Raw], Any]
    use: Literal["honoured", "ignored", "refused"]
    says: str
    kind: Any = Any

    def __call__(self, name: str, raw: msgspec.Raw) -> Any:
        return self.read(name, raw)


_ROOT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in `)?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_TYPES = re.compile(r"`((?:str|int|float|bool|object|array|null)(?: \| \w+)*)`")
_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_SHOWN = 40


def read_object(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields of a JSON object. Raises BadRequest naming what is wrong and where."""
    if not body.strip():
        raise BadRequest("the body is empty: send a JSON object")
    try:
        return _ROOT.decode(body)
    except msgspec.ValidationError as error:
        raise BadRequest("the body must be a JSON object") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (place := _no_number(body)) is not None:
            raise BadRequest(f"`{place[0]}` is {place[1]}, which JSON has no number for", param=place[0]) from error
        raise BadRequest(f"the body is not valid JSON: {_syntax(body, error)}") from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply") from error


def read_fields(
    body: bytes, table: Mapping[str, Reader], required: Iterable[str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is given of the fields of a table, and the names that are not in it.

    Raises BadRequest naming the field that cannot be read or is missing, Unsupported for one we cannot honour.
    """
    fields = read_object(body)
    given: dict[str, Any] = {}
    for name, raw in fields.items():
        if (reader := table.get(name)) and (value := reader(name, raw)) is not None:
            given[name] = value
    for name in required:
        if name not in given:
            raise BadRequest(f"`{name}` is required", param=name)
    return given, tuple(name for name in fields if name not in table)


def typed(kind: Any, must_be: str, then: Callable[[str, Any], Any] | None = None) -> Reader:
    """A reader for one type. `must_be` says in words what is expected; `then` checks further."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind | None)

    def read(name: str, raw: msgspec.Raw) -> Any:
        value = _decode(decoder, must_be, name, raw)
        return value if then is None or value is None else then(name, value)

    return Reader(read, "honoured", must_be, kind)


ignored = Reader(lambda name, raw: None, "ignored", "accepted; it changes no answer")
"""A field whose absence changes no answer: accepted and not read."""


def refused(why: str, *, unless: tuple[Any, ...] = ()) -> Reader:
    """A field we know and cannot honour; null and the values in `unless` ask for nothing."""
    decoder = msgspec.json.Decoder()

    def read(name: str, raw: msgspec.Raw) -> None:
        value = _decode(decoder, "valid JSON", name, raw)
        if value is not None and value not in unless:
            raise Unsupported(f"`{name}` is not supported: {why}", param=name)

    return Reader(read, "refused", why)


def check_depth(name: str, value: Any) -> Any:
    """The value, if it is nested no deeper than MAX_DEPTH and holds no integer an engine could not be sent.

    Raises BadRequest.
    """
    level, layer = 0, [value]
    while layer:
        if level > MAX_DEPTH:
            raise BadRequest(f"`{name}` is nested deeper than {MAX_DEPTH} levels", param=name)
        if any(isinstance(item, int) and not -(2**63) <= item < 2**64 for item in layer):
            raise BadRequest(f"`{name}` holds an integer of more than 64 bits", param=name)
        layer = [child for item in layer for child in _children(item)]
        level += 1
    return value


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case _:
            return []


def _decode(decoder: msgspec.json.Decoder[Any], must_be: str, name: str, raw: msgspec.Raw) -> Any:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _misfit(name, must_be, raw, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"`{name}` is not valid JSON: {_syntax(bytes(raw), error)}", param=name) from error
    except RecursionError as error:
        raise BadRequest(f"`{name}` is nested deeper than {MAX_DEPTH} levels", param=name) from error


def _misfit(name: str, must_be: str, raw: msgspec.Raw, said: str) -> BadRequest:
    match = _PATH.match(said)
    assert match is not None
    what, path = match["what"], match["path"] or ""
    if not path or "..." in path:
        return BadRequest(f"`{name}` must be {must_be}, got {_shown(raw)}", param=name)
    place = f"{name}{path}"
    if missing := re.match(r"Object missing required field `(.+)`", what):
        return BadRequest(f"`{place}.{missing[1]}` is required", param=f"{place}.{missing[1]}")
    return BadRequest(f"`{place}`: {in_words(what)}", param=place)


def misfit(place: str, error: msgspec.ValidationError) -> BadRequest:
    """What does not fit about a part of a field that is decoded on its own."""
    match = _PATH.match(str(error))
    assert match is not None
    inner = f"{place}{match['path'] or ''}"
    return BadRequest(f"`{inner}`: {in_words(match['what'])}", param=inner)


def in_words(said: str) -> str:
    """The decoder's words in those of JSON."""
    plain = _TYPES.sub(lambda found: _either([_WORDS[one] for one in found[1].split(" | ")]), said)
    return plain[:1].lower() + plain[1:]


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(raw: msgspec.Raw) -> str:
    text = bytes(raw).decode(errors="replace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


class _NoNumber(str):
    """NaN or an infinity, which Python's writers write and JSON does not have."""


def _no_number(body: bytes) -> tuple[str, str] | None:
    """Where such a one is the only thing wrong with a body, and which it is."""
    try:
        todo: list[tuple[str, Any]] = [("", json.loads(body, parse_constant=_NoNumber))]
    except (ValueError, RecursionError):
        return None
    while todo:
        place, value = todo.pop()
        if isinstance(value, _NoNumber):
            return place, str(value)
        if isinstance(value, dict):
            todo += [(f"{place}.{key}" if place else key, child) for key, child in value.items()]
        elif isinstance(value, list):
            todo += [(f"{place}[{at}]", child) for at, child in enumerate(value)]
    return None


def _syntax(body: bytes, error: Exception) -> str:
    """Better words than the decoder's where the standard library has them."""
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        return f"byte {wrong.start} is not UTF-8"
    try:
        json.loads(text).__repr__().encode()
    except json.JSONDecodeError as wrong:
        return f"{wrong.msg} at line {wrong.lineno}, column {wrong.colno}"
    except (ValueError, RecursionError):
        return str(error)
    return "a \\u escape is half of a surrogate pair" if re.search(r"\\u[dD][89a-fA-F]", text) else str(error)
