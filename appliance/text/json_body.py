"""How calls written in JSON are read: `{"name": …, "arguments": {…}}`, one, several or a list."""

import json
import re
from typing import Any, NoReturn

from appliance.text.balanced import Quoting, balanced, string
from appliance.text.reader import NotACall, Reader, Steps

NAMES = ("name", "tool_name", "function")
ARGUMENTS = ("arguments", "parameters")
_BESIDE = ("id", "type", "tool_call_id", "index")
"""Keys that may come before the name: another one there says that the object is no call."""

_JSON = Quoting(
    quotes=('"',),
    outside=re.compile(r'(?:[\s,:+\-.0-9eEtrufalsn]++|"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+")++'),
)
_SCALAR = re.compile(r"[+\-.0-9A-Za-z]+")
_CONTROLS = {code: json.dumps(chr(code))[1:-1] for code in range(32)}


def calls(reader: Reader, *ends: str, between: tuple[str, ...] = ()) -> Steps[None]:
    """One object or list of objects, and more of them where one of `between` or another object follows; one of
    `ends` behind them is read too, but may be missing. Raises NotACall, Cut.
    """
    while True:
        yield from reader.space()
        yield from _one_or_list(reader)
        if not ends and not between:
            return
        yield from reader.space()
        found = yield from reader.option(*between, *ends)
        if found in ends or (found is None and reader.window[:1] not in ("{", "[")):
            return


def fenced(reader: Reader) -> Steps[None]:
    """What may stand between a fence and JSON. Raises NotACall, Cut."""
    first = yield from reader.char()
    if first not in "[{j" and not first.isspace():  # most blocks of code, told at once
        raise NotACall("malformed call")
    yield from reader.option("json")


def call(reader: Reader) -> Steps[None]:
    """One object. Raises NotACall, Cut."""
    yield from members(reader)
    reader.end()


def members(reader: Reader) -> Steps[None]:
    """The object of a call, its end not yet said. Raises NotACall, Cut."""
    arguments: str | None = None
    mark = yield from reader.literal("{")
    while mark != "}":
        word = yield from key(reader)
        if word in ARGUMENTS and arguments is None:
            arguments = yield from object_text(reader)
        elif word in NAMES and reader.current is None:
            yield from _name(reader, arguments)
        elif reader.current is None and word not in _BESIDE:
            raise NotACall("malformed call")
        else:
            yield from value(reader)
        yield from reader.space()
        mark = yield from reader.literal(",", "}")
    if reader.current is None:
        raise NotACall("malformed call")
    if arguments is None and not reader.current.arguments:
        reader.argue("{}")


def object_text(reader: Reader) -> Steps[str]:
    """The arguments: an object, also as a string that holds it, or null. Where a call has begun, they become its own
    as they arrive. Raises NotACall, Cut.
    """
    yield from reader.space()
    parts: list[str] = []

    def take(text: str, quoted: bool) -> None:
        parts.append(text.translate(_CONTROLS) if quoted else text)
        if reader.current is not None:
            reader.argue(parts[-1])

    if (yield from reader.char()) == "{":
        yield from balanced(reader, _JSON, take)
        text = "".join(parts)
        _loaded(text, dict)
        return text
    told = yield from value(reader)
    text = "{}" if told is None else _dumped(told)
    if reader.current is not None:
        reader.argue(text)
    return text


def listed(reader: Reader) -> Steps[None]:
    """A list of objects behind its opening bracket. Raises NotACall, Cut."""
    yield from reader.space()
    while (yield from reader.char()) == "{":
        yield from call(reader)
        yield from reader.space()
        if (yield from reader.literal(",", "]")) == "]":
            reader.drop()
            return
        yield from reader.space()
    raise NotACall("malformed call")


def value(reader: Reader) -> Steps[Any]:
    """Any value, decoded. Raises NotACall, Cut."""
    parts: list[str] = []
    match (yield from reader.char()):
        case '"':
            yield from string(reader, _JSON, '"', lambda text, quoted: parts.append(text))
        case "{" | "[":
            yield from balanced(reader, _JSON, lambda text, quoted: parts.append(text))
        case _:
            while (run := _SCALAR.match(reader.window)) is not None:
                parts.append(reader.consume(run.end()))
                if not reader.window:
                    yield from reader.more()
    return _loaded("".join(parts))


def loads(text: str) -> Any:
    """Strict but for raw line breaks in strings, which models write. Raises ValueError."""
    try:
        return json.loads(text, strict=False, parse_constant=_not_json)
    except RecursionError:
        raise ValueError("nested too deep") from None


def dump(value: Any) -> str:
    """JSON text that can be encoded. Raises ValueError for what JSON has no word for."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can say
        return json.dumps(value)
    return text


def _one_or_list(reader: Reader) -> Steps[None]:
    if (yield from reader.char()) != "[":
        yield from call(reader)
        return
    yield from reader.literal("[")
    yield from listed(reader)


def key(reader: Reader) -> Steps[str]:
    """A key of an object, and what divides it from its value. Raises NotACall, Cut."""
    yield from reader.space()
    if (yield from reader.char()) != '"':
        raise NotACall("malformed call")
    found: str = yield from value(reader)
    yield from reader.space()
    yield from reader.literal(":")
    yield from reader.space()
    return found


def _name(reader: Reader, arguments: str | None) -> Steps[None]:
    """The name, or the object that holds name and arguments."""
    if (yield from reader.char()) == "{":
        yield from members(reader)
        return
    name = yield from value(reader)
    if not isinstance(name, str):
        raise NotACall("malformed call")
    reader.begin(name)
    if arguments is not None:
        reader.argue(arguments)


def _loaded(text: str, kind: type = object) -> Any:
    try:
        value = loads(text)
    except ValueError:
        raise NotACall("malformed call") from None
    return value if isinstance(value, kind) else _refuse()


def _dumped(told: Any) -> str:
    """The object that a string holds."""
    try:
        return dump(_loaded(told, dict)) if isinstance(told, str) else _refuse()
    except ValueError:
        _refuse()


def _refuse() -> NoReturn:
    raise NotACall("malformed call")


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
