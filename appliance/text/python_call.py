"""How calls written in Python are read: `name(key=value, …)`, values being literals."""

import re
import unicodedata
from typing import Any

from appliance.text.balanced import Quoting, balanced
from appliance.text.json_body import dump
from appliance.text.literal import Syntax
from appliance.text.reader import NotACall, Reader, Steps

_PYTHON = Quoting(quotes=('"""', "'''", '"', "'"), outside=re.compile(r"[\w\s=.,:+\-]+"))
_STRING = "|".join(
    rf"{quote}(?:[^{quote[0]}\\]++|\\.|{quote[0]}(?!{quote[1:]}))*+{quote}"
    if len(quote) == 3
    else rf"{quote}(?:[^{quote}\\]++|\\.)*+{quote}"
    for quote in _PYTHON.quotes
)
_TOKENS = re.compile(
    rf"\s*(?:(?P<string>{_STRING})|(?P<word>[\w.+\-]+)|(?P<mark>[\[\](){{}},:=])|(?P<other>\S))\s*", re.DOTALL
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|N\{([^}]+)\}|(.))", re.DOTALL
)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""} | {
    char: char for char in "\\'\""
}
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9_]{0,1000})")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def call(reader: Reader, *, member: str = "") -> Steps[None]:
    """One call; `member` may stand between name and arguments. Raises NotACall, Cut."""
    name, _ = yield from reader.until("(", within=256)
    reader.begin(name.strip().removesuffix(member))
    reader.unread("(")
    parts: list[str] = []
    yield from balanced(reader, _PYTHON, lambda text, quoted: parts.append(text))
    try:
        reader.argue(dump(SYNTAX.members("".join(parts), "=")))
    except ValueError:
        raise NotACall("malformed call") from None
    reader.end()


def calls(reader: Reader) -> Steps[None]:
    """A list of calls in brackets. Raises NotACall, Cut."""
    yield from reader.literal("[")
    while True:
        yield from reader.space()
        yield from call(reader)
        yield from reader.space()
        if (yield from reader.literal(",", "]")) == "]":
            reader.drop()
            return


def written(name: str, arguments: Any) -> str:
    """One call as Python writes it."""
    given = arguments if isinstance(arguments, dict) else {}
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


def value(text: str) -> Any:
    """A literal. Raises ValueError."""
    return SYNTAX.value(text)


def _string(token: str) -> str:
    size = 3 if token[:3] in ('"""', "'''") and len(token) >= 6 else 1
    return _ESCAPE.sub(_unescaped, token[size:-size])


def _unescaped(found: re.Match[str]) -> str:
    two, four, eight, octal, named, simple = found.groups()
    if simple is not None:
        return _SIMPLE.get(simple, found[0])
    if named is not None:
        try:
            return unicodedata.lookup(named)
        except KeyError:
            return found[0]
    code = int(octal, 8) if octal is not None else int(two or four or eight, 16)
    return chr(code) if code < 0x110000 else found[0]


def _word(token: str) -> Any:
    if token in _WORDS:
        return _WORDS[token]
    if _INTEGER.fullmatch(token):
        return int(token)
    if _FLOAT.fullmatch(token):
        return float(token)
    raise ValueError(f"{token!r} is no literal")


SYNTAX = Syntax(_TOKENS, _string, _word)
