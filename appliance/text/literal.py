"""Nested values out of complete text, whatever the strings and words of a syntax look like."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_CLOSE = {"[": "]", "(": ")", "{": "}"}
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Syntax:
    """`tokens` has the groups `string`, `mark` (brackets, comma, separators) and `word`, and matches all there is.

    `string` and `word` tell what such a token stands for; both raise ValueError.
    """

    tokens: re.Pattern[str]
    string: Callable[[str], Any]
    word: Callable[[str], Any]

    def value(self, text: str) -> Any:
        """One value. Raises ValueError."""
        return self._whole(text, lambda tokens: tokens.value())

    def members(self, text: str, separator: str) -> dict[str, Any]:
        """An object in any kind of brackets, its keys followed by `separator`. Raises ValueError."""
        found: dict[str, Any] = self._whole(text, lambda tokens: tokens.members(tokens.bracket(), separator))
        return found

    def _whole(self, text: str, read: Callable[["_Tokens"], Any]) -> Any:
        tokens = _Tokens(self, text)
        found = read(tokens)
        if tokens.kind is not None:
            raise ValueError("more than one value")
        return found


class _Tokens:
    def __init__(self, syntax: Syntax, text: str) -> None:
        self._syntax = syntax
        self._found = syntax.tokens.finditer(text)
        self._depth = 0
        self._next()

    def _next(self) -> None:
        found = next(self._found, None)
        self.kind = None if found is None else found.lastgroup
        self._text = "" if found is None else found[found.lastgroup or 0]
        if self.kind == "other":
            raise ValueError(f"{self._text!r} is out of place")

    def _take(self) -> str:
        text = self._text
        self._next()
        return text

    def _skip(self, mark: str) -> bool:
        if self.kind != "mark" or self._text != mark:
            return False
        self._next()
        return True

    def bracket(self) -> str:
        """The closing one of the bracket that stands here."""
        if self.kind != "mark" or self._text not in _CLOSE:
            raise ValueError("a bracket is missing")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("nested too deep")
        return _CLOSE[self._take()]

    def value(self) -> Any:
        match self.kind:
            case "string":
                return self._strings()
            case "word":
                return self._syntax.word(self._take())
            case "mark" if self._text == "{":
                return self.members(self.bracket(), ":")
            case _:
                return self._items(self.bracket())

    def members(self, close: str, separator: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._skip(close):
            key = self._strings() if self.kind == "string" else self._take() if self.kind == "word" else None
            if not isinstance(key, str) or not self._skip(separator):
                raise ValueError("a key is missing")
            found[key.strip()] = self.value()
            self._between(close)
        self._depth -= 1
        return found

    def _items(self, close: str) -> list[Any]:
        found: list[Any] = []
        while not self._skip(close):
            found.append(self.value())
            self._between(close)
        self._depth -= 1
        return found

    def _between(self, close: str) -> None:
        if not self._skip(",") and not (self.kind == "mark" and self._text == close):
            raise ValueError("a comma is missing")

    def _strings(self) -> Any:
        """Strings side by side are one."""
        found = self._syntax.string(self._take())
        while self.kind == "string":
            found += self._syntax.string(self._take())
        return found
