"""A grammar while it is written, in llguidance's dialect of Lark: rules by name, tags as the tokenizer has them.

Syntax: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Split = Callable[[str], Sequence[str | int]]
"""A text as pieces: ids of special tokens, and the text between them."""

ANY = "(?s:.*)"


class Unfit(Exception):
    """This schema cannot be said in a call of this format; `args[0]` says what of it."""


class Lark:
    """`split` tells special tokens from text; `json_of` is the grammar text of a JSON schema."""

    def __init__(self, split: Split, json_of: Callable[[Mapping[str, Any]], str]) -> None:
        self._split = split
        self._json_of = json_of
        self._names: dict[str, str] = {}

    def source(self, start: str) -> str:
        """All rules, `start` being the expression of the whole."""
        rules = (f"{name}{body}" for body, name in self._names.items())
        return "\n".join((f"start: {start}", *rules))

    def special(self, tag: str) -> bool:
        """Whether the tag begins with a special token."""
        return isinstance(self._split(tag)[0], int)

    def text(self, text: str) -> str:
        """An expression for exactly this text."""
        return " ".join(_piece(piece) for piece in self._split(text)) if text else '""'

    def json(self, schema: Mapping[str, Any]) -> str:
        """A rule for JSON text that validates."""
        return self.rule(self._json_of(schema))

    def rule(self, expression: str) -> str:
        """A rule for an expression."""
        return self._name("r", f": {expression}")

    def terminal(self, *patterns: str) -> str:
        """A terminal for text that matches all of these regular expressions; those after `~` it must not match."""
        return self._name("T", ": " + " & ".join(map(_pattern, patterns)))

    def lazily(self, before: str, pattern: str) -> str:
        """An expression for a terminal's text and then the first that matches the pattern."""
        return self._name("r", f"[lazy]: {self._name('T', f': {before} {_pattern(pattern)}')}")

    def at_once(self, text: str) -> str:
        """An expression for exactly this text, which nothing else can be once it is said."""
        return self._name("r", f"[lazy]: {self._name('T', f': {_piece(text)}')}")

    def until(self, end: str, *patterns: str, quoted: bool = False) -> str:
        """An expression for text that matches all patterns, up to the first `end` behind such a text, which belongs
        to it. Where that is text and not a special token, `quoted` lets the patterns decide which is the first.
        """
        first, *rest = self._split(end)
        if isinstance(first, int):
            return f"{self.terminal(*patterns, without(end))} {self.text(end)}"
        body = self.terminal(*patterns, *(() if quoted else (without(first),)))
        whole = self._name("T", f": {body} {_piece(first)}")
        lazy = self._name("r", f"[lazy]: {whole}")
        return " ".join((lazy, *map(_piece, rest)))

    def _name(self, kind: str, body: str) -> str:
        prefix = "r" if kind == "r" else "T"
        return self._names.setdefault(body, f"{prefix}{len(self._names)}")


def quoted(text: str) -> str:
    """A regular expression for exactly this text."""
    return "".join(f"\\x{{{ord(char):x}}}" if not char.isalnum() else char for char in text)


def either(expressions: Sequence[str]) -> str:
    """One of these."""
    return expressions[0] if len(expressions) == 1 else f"({' | '.join(expressions)})"


def _piece(piece: str | int) -> str:
    return f"<[{piece}]>" if isinstance(piece, int) else json.dumps(piece, ensure_ascii=False)


def _pattern(pattern: str) -> str:
    negated = pattern.startswith("~")
    body = re.sub(r"(?<!\\)((?:\\\\)*)/", r"\1\\/", pattern.removeprefix("~")).replace("\n", "\\n")
    return f"{'~' if negated else ''}/{body}/"


def without(text: str) -> str:
    """A pattern for text that does not hold this one."""
    return f"~{ANY}{quoted(text)}{ANY}"
