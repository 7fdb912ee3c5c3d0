"""Where conversations part: the lengths of a prompt at which a snapshot is worth having. PURE.

A template is not cut by us: what a border leaves in common is found by rendering the conversation up to it with
another next turn, and comparing tokens.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from appliance.engine.prefix_cache import common_prefix
from appliance.errors import TemplateFailed
from appliance.vocab.request import Message
from appliance.vocab.spec import ChatPrompt

Render = Callable[[ChatPrompt], list[int]]

_OTHER = Message(role="user", content="\N{BLACK DIAMOND}")
"""A turn that begins like hardly any other."""


def borders(prompt: ChatPrompt, tokens: Sequence[int], render: Render) -> tuple[int, ...]:
    """Ascending: after system prompt and tools, and after each message that its client has marked."""
    messages = prompt.messages
    leading = next((n for n, message in enumerate(messages) if message.role != "system"), len(messages))
    places = {leading} | {n for n, message in enumerate(messages, 1) if message.mark}
    lengths = {_length(prompt, n, tokens, render) for n in places if 0 < n < len(messages)}
    return tuple(sorted(length for length in lengths if 0 < length < len(tokens)))


def opening(prompt: ChatPrompt, render: Render) -> list[int]:
    """The tokens that every conversation has in common which begins with this prompt's messages, and one more."""
    one, other = (
        render(replace(prompt, messages=(*prompt.messages, replace(_OTHER, content=text)))) for text in "ab"
    )
    return one[: common_prefix(one, other) + 1]


def _length(prompt: ChatPrompt, count: int, tokens: Sequence[int], render: Render) -> int:
    """How many tokens the first `count` messages give whatever follows; 0 where they cannot stand alone."""
    told = prompt.messages[:count]
    if prompt.messages[count].role == "user":
        told = (*told, _OTHER)
    try:
        return common_prefix(render(replace(prompt, messages=told, continue_final=False)), tokens)
    except TemplateFailed:
        return 0
