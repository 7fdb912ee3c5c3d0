"""One answer's text through the channels, folded to what a client ends up with."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from appliance.text import dialects, reasoning
from appliance.text.channels import Channels
from appliance.vocab.event import ReasoningDelta, TextDelta, ToolCallDelta


@dataclass
class Folded:
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    warnings: dict[str, int] = field(default_factory=dict)


def channels(tools: str = "none", thinks: str = "none", **options: Any) -> Channels:
    numbers = itertools.count()
    return Channels(
        tools=dialects.find(tools),
        reasoning=reasoning.find(thinks),
        new_id=lambda: f"id{next(numbers)}",
        **options,
    )


def fold(made: Channels, pieces: Iterable[str], *, cut: bool = False) -> Folded:
    out, calls = Folded(), {}
    for delta in [delta for piece in pieces for delta in made.feed(piece)] + made.close(cut=cut):
        match delta:
            case TextDelta(text):
                out.content += text
            case ReasoningDelta(text):
                out.reasoning += text
            case ToolCallDelta(index, id, name, arguments):
                assert (index in calls) == (id is None) == (name is None)
                known = calls.setdefault(index, (name, ""))
                calls[index] = (known[0], known[1] + arguments)
    out.calls = [calls[at] for at in range(len(calls))]
    out.warnings = dict(made.warnings)
    return out


def every_way(text: str, make: Callable[[], Channels], *, cut: bool = False) -> Folded:
    """The fold of the whole text, after checking that it is the same split at every character, and into pieces."""
    whole = fold(make(), [text], cut=cut)
    for size in (1, 2, 3, 7, 19):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert fold(make(), pieces, cut=cut) == whole, size
    return whole
