"""Whether a model's template and the chosen dialects agree: what the template writes must read back.

for mismatch in probe(Renderer(template, constants, now), "hermes_json", "think_tags", {"enable_thinking": True}):
    print(mismatch.message)
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from appliance.errors import TemplateFailed
from appliance.text import dialects, reasoning
from appliance.text.channels import Channels
from appliance.text.dialects.format import ToolFormat
from appliance.text.dialects.none import FORMAT as NO_TOOLS
from appliance.text.reasoning.format import Reasoning
from appliance.text.reasoning.none import REASONING as NO_REASONING
from appliance.text.rendering import Renderer
from appliance.vocab.event import ReasoningDelta, TextDelta, ToolCallDelta
from appliance.vocab.request import Message, Tool, ToolCall
from appliance.vocab.spec import ChatPrompt

_TOOL = Tool(
    name="probe_tide",
    description="Probes",
    parameters={
        "type": "object",
        "properties": {
            "harbour": {"type": "string", "description": "Where"},
            "days": {"type": "integer", "description": "How many"},
        },
        "required": ["harbour", "days"],
    },
)
_ARGUMENTS = {"harbour": "Brest", "days": 2}
_ASKED, _RESULT, _THOUGHT, _SAID = "probe the tide", "probed 42", "probing thought", "probed answer"
_ASK = Message(role="user", content=_ASKED)
_CALL = ToolCall(id="call_0123456789abcdef01234567", name=_TOOL.name, arguments=json.dumps(_ARGUMENTS))
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The template and a dialect do not agree; `message` names both and says what was met instead."""

    what: Literal["tools", "reasoning", "template"]
    dialect: str
    message: str


def probe(
    renderer: Renderer,
    tools: str,
    thinking: str,
    kwargs: Mapping[str, Any],
    *,
    template: str | None = None,
) -> tuple[Mismatch, ...]:
    """All that does not agree. `tools` and `thinking` name the dialects, `kwargs` are the template's variables;
    `template` stands for the renderer's own where given.
    """
    format, formed = dialects.find(tools), reasoning.find(thinking)
    if format is None:
        return (Mismatch("tools", tools, f"there is no tool dialect {tools!r}"),)
    if formed is None:
        return (Mismatch("reasoning", thinking, f"there is no reasoning dialect {thinking!r}"),)
    prompts = ChatPrompt(
        messages=(_ASK,), template=template, kwargs=dict(kwargs), tool_dialect=tools, reasoning_dialect=thinking
    )
    try:
        if _ASKED not in renderer.text(prompts):
            return (Mismatch("template", "", "the chat template does not show what users say"),)
        return (*_calls(renderer, prompts, format, formed), *_thoughts(renderer, prompts, formed))
    except TemplateFailed as failure:
        return (Mismatch("template", "", f"the chat template renders no conversation: {failure.message}"),)


# --- calls


def _calls(renderer: Renderer, prompts: ChatPrompt, format: ToolFormat, thinking: Reasoning) -> Iterator[Mismatch]:
    if format is NO_TOOLS:
        return
    turn = Message(role="assistant", tool_calls=(_CALL,))
    result = Message(role="tool", content=_RESULT, tool_call_id=_CALL.id)
    text = renderer.text(_of(prompts, _ASK, turn, result, tools=(_TOOL,)))
    written = text[text.rindex(_ASKED) + len(_ASKED) :].partition(_RESULT)[0]
    # What the template writes before every answer is none of it.
    answer = _behind(renderer.text(_of(prompts, _ASK, tools=(_TOOL,))), text).partition(_RESULT)[0]
    if not _reads(format, thinking, written) and not _reads(format, thinking, answer):
        fits = [row.name for row in dialects.DIALECTS if row is not NO_TOOLS and _reads(row, thinking, written)]
        instead = f"; {_listed(fits)} would" if fits else ""
        yield Mismatch(
            "tools",
            format.name,
            f"tool dialect {format.name} does not read the call that the chat template writes{instead}:"
            f" {written.strip()[:_SHOWN]!r}",
        )


def _behind(first: str, second: str) -> str:
    """What the second text goes on with where they part."""
    return second[
        next((at for at, pair in enumerate(zip(first, second, strict=False)) if len(set(pair)) > 1), len(first)) :
    ]


def _reads(format: ToolFormat, thinking: Reasoning, written: str) -> bool:
    """Whether it finds exactly the one call."""
    frames = thinking if thinking.frames is not None else NO_REASONING
    parser = Channels(
        reasoning=frames, tools=format, declared={_TOOL.name: _TOOL.parameters}, new_id=lambda: _CALL.id
    )
    calls: dict[int, list[str]] = {}
    for delta in [*parser.feed(written), *parser.close()]:
        if isinstance(delta, ToolCallDelta):
            calls.setdefault(delta.index, []).append(delta.arguments)
    return [json.loads("".join(texts)) for texts in calls.values()] == [_ARGUMENTS]


# --- reasoning


def _thoughts(renderer: Renderer, prompts: ChatPrompt, thinking: Reasoning) -> Iterator[Mismatch]:
    said = Message(role="assistant", content=_SAID, reasoning=_THOUGHT)
    text = renderer.text(_of(prompts, _ASK, said))
    written = text[text.rindex(_ASKED) + len(_ASKED) :]
    begun = renderer.text(prompts)
    if _THOUGHT in written:
        agrees = _thinks(thinking, written)
        fits = [row.name for row in reasoning.DIALECTS if row is not NO_REASONING and _thinks(row, written)]
        shown = written
    else:
        # It shows no reasoning of the past: then the prompt's end must be read right.
        fits = [row.name for row in reasoning.DIALECTS if row.begins(begun)]
        agrees = not fits or thinking.begins(begun)
        shown = begun[-_SHOWN:]
    if not agrees:
        instead = f"; {_listed(fits)} would" if fits else ""
        yield Mismatch(
            "reasoning",
            thinking.name,
            f"reasoning dialect {thinking.name} does not read what the chat template writes{instead}:"
            f" {shown.strip()[:_SHOWN]!r}",
        )


def _thinks(thinking: Reasoning, written: str) -> bool:
    """Whether it tells the thought from the answer."""
    inside = False
    if thinking.frames is None:
        at = min((at for tag in thinking.open if (at := written.find(tag)) >= 0), default=-1)
        inside = at < 0 and thinking.implied
        written = written[max(at, 0) :] if not inside else written[written.index(_THOUGHT) :]
    if not inside and thinking.implied:
        inside, written = True, written.removeprefix(thinking.open[0])
    parser = Channels(reasoning=thinking, new_id=str, inside=inside)
    thought, answer = "", ""
    for delta in [*parser.feed(written), *parser.close()]:
        match delta:
            case ReasoningDelta(text):
                thought += text
            case TextDelta(text):
                answer += text
    if thinking.frames is not None:
        return thought.strip() == _THOUGHT and _SAID in answer
    return thought.strip() == _THOUGHT and answer.strip().startswith(_SAID)


def _of(prompts: ChatPrompt, *messages: Message, tools: tuple[Tool, ...] = ()) -> ChatPrompt:
    return ChatPrompt(
        messages=messages,
        tools=tools,
        template=prompts.template,
        kwargs=prompts.kwargs,
        tool_dialect=prompts.tool_dialect,
        reasoning_dialect=prompts.reasoning_dialect,
    )


def _listed(names: list[str]) -> str:
    return " or ".join(names)
