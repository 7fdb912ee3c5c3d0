"""YAML text to a located tree: our own YAML 1.2 core scalars, marks kept, duplicate keys refused."""

import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from appliance.config.problem import Path, Place, Problem, at
from appliance.config.syntax import syntax_problem

MAX_DEPTH = 64
MAX_NODES = 200_000
_STR = "tag:yaml.org,2002:str"
_PLAIN = "plain"

Value = str | int | float | bool | None


@dataclass(slots=True)
class Scalar:
    """`plain` (no quotes) decides whether `text` may be anything but text.

    `written` is what stood in the file where something was substituted: errors show it instead of `text`.
    """

    text: str
    plain: bool
    place: Place
    written: str | None = None


@dataclass(slots=True)
class Sequence:
    items: list["Node"]
    place: Place


@dataclass(slots=True)
class Entry:
    key: Place
    value: "Node"


@dataclass(slots=True)
class Mapping:
    entries: dict[str, Entry]
    place: Place


Node = Scalar | Sequence | Mapping

_WORDS: dict[str, Value] = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
    | dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf)
    | dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf)
    | dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan)
)
_INT = re.compile(r"[-+]?[0-9]+", re.ASCII)
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)


def core(text: str) -> Value:
    """What a plain scalar is under YAML 1.2's core schema: `no` and `22:00` are text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > 400:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


class _Untyped:
    """Leaves scalars untyped: only whether they were plain is kept."""

    def resolve(self, kind: type, value: str, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _STR
        return "tag:yaml.org,2002:seq" if kind is yaml.SequenceNode else "tag:yaml.org,2002:map"

    def descend_resolver(self, parent: Any, index: Any) -> None: ...

    def ascend_resolver(self) -> None: ...

    def check_resolver_prefix(self, *_: Any) -> bool:
        return False


if yaml.__with_libyaml__:

    class _Composer(yaml.cyaml.CParser, _Untyped):  # type: ignore[name-defined, misc]
        pass

else:
    from yaml.composer import Composer
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class _Composer(Reader, Scanner, Parser, Composer, _Untyped):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)
            Composer.__init__(self)


def parse(text: str, file: str) -> tuple[Node | None, list[Problem]]:
    """The tree of a document, or None where there is none to speak of; and what is wrong with it.

    Duplicate keys and unknown tags are problems but leave a tree, so that more can be found in the same run.
    """
    composer = None
    try:
        composer = _Composer(text)
        root = composer.get_single_node()
    except yaml.YAMLError as error:
        return None, [syntax_problem(error, text, file)]
    finally:
        if composer is not None and hasattr(composer, "dispose"):
            composer.dispose()
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _PLAIN and core(root.value) is None):
        place = Place(file, 1, 1, 2)
        return None, [at(place, "E107", (), "the file is empty", "the least is `version: 1` and one model")]
    build = _Build(file)
    try:
        return build.node(root, ()), build.problems
    except _Refused as refused:
        return None, [*build.problems, refused.problem]


class _Refused(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class _Build:
    """Composed nodes to ours. A node behind several aliases is built each time: its marks are the anchor's."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.count = 0

    def node(self, node: yaml.Node, path: Path) -> Node:
        self.count += 1
        if self.count > MAX_NODES:
            raise _Refused(at(self.place(node), "E113", path, f"the file unfolds to more than {MAX_NODES} values"))
        if len(path) > MAX_DEPTH:
            raise _Refused(
                at(self.place(node), "E113", path[:8], "nested too deep", "does an anchor contain itself?")
            )
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        place = self.place(node)
        if isinstance(node, yaml.SequenceNode):
            return Sequence([self.node(child, (*path, i)) for i, child in enumerate(node.value)], place)
        assert isinstance(node, yaml.MappingNode)
        return Mapping(self.entries(node, path), place)

    def scalar(self, node: yaml.ScalarNode, path: Path) -> Scalar:
        plain = node.tag != _STR
        if node.tag not in _TAGS:
            self.problems.append(
                at(self.place(node), "E113", path, f"the tag {_shorthand(node.tag)} is not understood", "delete it")
            )
            plain = False
        if "\0" in node.value:
            self.problems.append(at(self.place(node), "E113", path, "a NUL character in a text", "delete it"))
        return Scalar(node.value.replace("\0", "\ufffd"), plain, self.place(node))

    def entries(self, node: yaml.MappingNode, path: Path) -> dict[str, Entry]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key, value in node.value:
            place = self.place(key)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(at(place, "E113", path, "a key must be plain text", "write a word"))
            elif key.value == "<<" and key.tag == _PLAIN:
                merged = self.merge(value, path) | merged
            elif key.value in own:
                first = own[key.value].key.line
                self.problems.append(
                    at(place, "E103", (*path, key.value), "duplicate key", f"the first one is on line {first}")
                )
            else:
                own[key.value] = Entry(place, self.node(value, (*path, key.value)))
        return merged | own

    def merge(self, node: yaml.Node, path: Path) -> dict[str, Entry]:
        """`<<`: the keys of one mapping, or of several of which earlier ones win."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Entry] = {}
        for source in sources:
            if isinstance(source, yaml.MappingNode):
                built = self.node(source, (*path, "<<"))
                assert isinstance(built, Mapping)
                merged = built.entries | merged
            else:
                hint = "write <<: *anchor of an object, or delete it"
                self.problems.append(
                    at(self.place(source), "E113", (*path, "<<"), "only objects can be merged", hint)
                )
        return merged

    def place(self, node: yaml.Node) -> Place:
        start, end = node.start_mark, node.end_mark
        # An object or block text ends lines below: mark its first character only.
        stop = end.column if end.line == start.line else start.column + 1
        return Place(self.file, start.line + 1, start.column + 1, max(stop, start.column + 1) + 1)


_TAGS = {_PLAIN, _STR, *(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))}


def natural(scalar: Scalar) -> Value:
    """The value a scalar has by itself."""
    return core(scalar.text) if scalar.plain else scalar.text


def _shorthand(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!", 1)
