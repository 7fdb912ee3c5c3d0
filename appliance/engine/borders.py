"""Where conversations part: the lengths of a prompt at which a snapshot is worth having. PURE.

A template is not cut by us: what a border leaves in common is found by rendering the conversation up to it with
another next turn, and comparing tokens.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from appliance.engine.radix import common_prefix
from appliance.errors import TemplateFailed
from appliance.vocab.request import Message, Tool
from appliance.vocab.spec import ChatPrompt

Render = Callable[[ChatPrompt], list[int]]

_OTHER = Message(role="user", content="\N{BLACK DIAMOND}")
"""A turn that begins like hardly any other."""
_OTHER_TOOL = Tool(name="other")
_MOST = 8
"""Marks that count, the last ones: each costs a rendering."""


def borders(prompt: ChatPrompt, tokens: Sequence[int], render: Render) -> tuple[int, ...]:
    """Ascending: after system prompt and tools, and after each message, part of one and tool that is marked."""
    lengths = {_common(variant, tokens, render) for variant in _variants(prompt)}
    return tuple(sorted(length for length in lengths if 0 < length < len(tokens)))


def _variants(prompt: ChatPrompt) -> Iterator[ChatPrompt]:
    """For each border a conversation that is the same up to there."""
    messages, count = prompt.messages, len(prompt.messages)
    leading = next((n for n, message in enumerate(messages) if message.role != "system"), count)
    if 0 < leading < count:
        yield _parted(prompt, leading)
    marked = [_without_tools(prompt, n) for n, tool in enumerate(prompt.tools, 1) if tool.mark]
    for n, message in enumerate(messages, 1):
        marked += [_within(prompt, n, part) for part in message.parts if part < len(message.content or "")]
        if (message.mark or message.parts) and n != leading and not (n == count and prompt.continue_final):
            marked.append(_parted(prompt, n))
    yield from marked[-_MOST:]


def _parted(prompt: ChatPrompt, count: int) -> ChatPrompt:
    """After so many messages."""
    told = prompt.messages[:count]
    if count == len(prompt.messages) or prompt.messages[count].role == "user":
        told = (*told, _OTHER)
    return replace(prompt, messages=told, continue_final=False)


def _within(prompt: ChatPrompt, count: int, part: int) -> ChatPrompt:
    """After a part of the last of so many messages."""
    *before, last = prompt.messages[:count]
    cut = replace(last, content=f"{(last.content or '')[:part]}{_OTHER.content}")
    told = (*before, cut) if cut.role == "user" else (*before, cut, _OTHER)
    return replace(prompt, messages=told, continue_final=False)


def _without_tools(prompt: ChatPrompt, count: int) -> ChatPrompt:
    """After so many tools: where there are more they are left out, else there is one more."""
    tools = prompt.tools[:count] if count < len(prompt.tools) else (*prompt.tools, _OTHER_TOOL)
    return replace(prompt, tools=tools)


def opening(prompt: ChatPrompt, render: Render) -> list[int]:
    """The tokens that every conversation has in common which begins with this prompt's messages, and one more."""
    one, other = (
        render(replace(prompt, messages=(*prompt.messages, replace(_OTHER, content=text)))) for text in "ab"
    )
    return one[: common_prefix(one, other) + 1]


def _common(variant: ChatPrompt, tokens: Sequence[int], render: Render) -> int:
    """How many tokens a prompt has in common with a variant of it; 0 where that cannot be."""
    try:
        return common_prefix(render(variant), tokens)
    except TemplateFailed:
        return 0
