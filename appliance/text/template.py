"""What a chat template makes of a conversation: Jinja in a sandbox, with what templates of public models expect.

The names a template finds (`tojson`, `raise_exception`, `strftime_now`, `generation` blocks, loop controls) and the
white space rules are those of Hugging Face's `apply_chat_template`.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Const, Node, Scope, TemplateData
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from appliance.errors import TemplateFailed

RESERVED = frozenset(
    {
        "messages",
        "tools",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
        "chat_template",
        "strftime_now",
        "self",
    }
)
"""Names a template variable of a request cannot have: the renderer's own."""

CACHED_TEMPLATES = 32
_LONGEST_MESSAGE = 500

# Whatever a template does wrong with these messages, jinja's own errors aside.
_FAULTS = (
    jinja2.TemplateError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    RecursionError,
    OverflowError,
    ZeroDivisionError,
)


class Template:
    """A compiled chat template. Raises TemplateFailed where it cannot be compiled."""

    def __init__(self, source: str) -> None:
        self.source = source
        try:
            self._template = _environment().from_string(source)
            tree = self._template.environment.parse(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise TemplateFailed(f"the chat template cannot be read: {error}", param="messages") from error
        texts = {node.data for node in tree.find_all(TemplateData)}
        constants = {node.value for node in tree.find_all(Const) if isinstance(node.value, str)}
        self.literal = "\0".join(sorted(texts | constants))
        """All text it holds itself."""

    def render(self, variables: Mapping[str, Any], now: Callable[[], datetime]) -> str:
        """The text for these variables. Raises TemplateFailed with the template's own message."""
        try:
            return self._template.render({**variables, "strftime_now": lambda form: now().strftime(form)})
        except _FAULTS as error:
            said = str(error)[:_LONGEST_MESSAGE] or type(error).__name__
            raise TemplateFailed(f"the chat template refused these messages: {said}", param="messages") from error


compiled = lru_cache(maxsize=CACHED_TEMPLATES)(Template)
"""The template of this source, compiled once."""


class _Generation(Extension):
    """`{% generation %}` marks what trainers learn from; here it is just its content."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> Node | list[Node]:
        line = next(parser.stream).lineno
        return Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _Namespace(jinja2.utils.Namespace):
    """Without names that lead to an object's inside."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            _check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check(name)
        super().__setitem__(name, value)


def _check(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"{name!r} cannot be stored: it begins with an underscore")


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.filters["from_json"] = json.loads
    environment.globals["raise_exception"] = _refuse
    environment.globals["namespace"] = _Namespace
    environment.globals["dict"] = lambda *args, **kwargs: dict(*args, **kwargs)  # no class to climb from
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own escapes HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
