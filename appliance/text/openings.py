"""How a call begins that no tag of its own announces: what stands before a tool's name, and what must follow it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.text.lark import ANY, Lark, either

Body = Callable[[Lark, Mapping[str, Any]], str]
"""The expression of what follows a tool's name in its call, from the schema of the arguments."""

SPACE = "[ \\n\\r\\t]*"
LINE = f"({ANY}\\n|{SPACE})"
"""Text behind which a line begins, or nothing but white space."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Before a tool's name stands a `tag`, or at the beginning of a line or behind a call `prefix` and `head`, both
    patterns: text that ends so can only be a call, once the name is that of a tool. `quote` is the text right behind
    the name. Further calls have the pattern `another` before their `head`, and all end with `end`; where `another` is
    empty there are none.
    """

    quote: str
    body: Body
    tag: str = ""
    prefix: str = ""
    head: str = ""
    another: str = ""
    end: str = ""


def heads(lark: Lark, openings: Sequence[Opening], free: Sequence[str]) -> Iterator[str]:
    """For each an expression of free text up to a tool's name. No two end at one place."""
    # Behind one that begins with a fence nothing is free any more.
    apart = {way.prefix for way in openings if not re.fullmatch(way.prefix, "") and not way.prefix.startswith("```")}
    for opening in openings:
        if opening.tag:
            yield lark.until(opening.tag, *free, quoted=True)
            continue
        others = (f"~{LINE}{prefix}" for prefix in sorted(apart - {opening.prefix}))
        yield lark.lazily(lark.terminal(LINE, *free, *others), opening.prefix + opening.head)


def rest(lark: Lark, opening: Opening, tools: Mapping[str, Mapping[str, Any]], most: int) -> str:
    """A tool's name and the rest of its call, and further calls: `most` in all. Raises Unfit."""
    calls = [f"{lark.at_once(name + opening.quote)} {opening.body(lark, schema)}" for name, schema in tools.items()]
    one = lark.rule(either(calls))
    again = f" ({lark.terminal(opening.another + opening.head)} {one}){{0,{most - 1}}}" if opening.another else ""
    return lark.rule(f"{one}{again if most > 1 else ''} {lark.terminal(opening.end) if opening.end else ''}")


# --- JSON

_BESIDE = f'("(id|type|tool_call_id|index)"{SPACE}:{SPACE}("[^"\\\\]*"|[0-9]+){SPACE},{SPACE})*'
_NAMED = f'{SPACE}:{SPACE}"'
_PLAIN = f'\\{{{SPACE}{_BESIDE}"(name|tool_name|function)"{_NAMED}'
_WRAPPED = f'\\{{{SPACE}{_BESIDE}"function"{SPACE}:{SPACE}\\{{{SPACE}"name"{_NAMED}'
_SHORT = "[ \\n\\r\\t]{0,16}"
"""White space that a model may write; one that never ended would be no call."""
_ARGUMENTS = f'{_SHORT},{_SHORT}"(arguments|parameters)"{_SHORT}:{_SHORT}'


def objects(prefix: str = "", another: str = "", end: str = "") -> tuple[Opening, ...]:
    """Objects with name and arguments, these two also in an object under `function`."""
    return (
        Opening('"', _body("\\}"), "", prefix, _PLAIN, another, end),
        Opening('"', _body(f"\\}}{_SHORT}\\}}"), "", prefix, _WRAPPED, another, end),
    )


def listed(prefix: str = "", end: str = "") -> tuple[Opening, ...]:
    """A list of such objects."""
    return objects(f"{prefix}\\[{SPACE}", f"{_SHORT},{_SHORT}", f"{_SHORT}\\]{end}")


def fenced(prefix: str) -> tuple[Opening, ...]:
    """Such objects, or a list of them, in a block that `prefix` begins."""
    end = f"{_SHORT}```"
    return (*objects(f"{prefix}{SPACE}", _SHORT, end), *listed(f"{prefix}{SPACE}", end))


def _body(tail: str) -> Body:
    return lambda lark, schema: f"{lark.terminal(_ARGUMENTS)} {lark.json(schema)} {lark.terminal(_SHORT + tail)}"
