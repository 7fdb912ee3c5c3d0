"""Checks a directory of chat templates against the shipped families: `python -m tests.text.templates DIR`.

Each `*.jinja` must be recognised by its content, render with and without tools, reasoning on and off, show what was
said, and agree with its family's dialects; of those with a well-known name the family is known. Exits 1 where one
does not.
"""

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from appliance.config import load
from appliance.config.checkpoint import Checkpoint
from appliance.config.family import FamilyFile, recognise
from appliance.errors import TemplateFailed
from appliance.text.probe import probe
from appliance.text.rendering import Renderer
from appliance.vocab.request import Message, SamplingPatch, Tool, ToolCall
from appliance.vocab.spec import ChatPrompt
from tests.text.template_families import FAMILIES

CONSTANTS = {"bos_token": "<BOS>", "eos_token": "<EOS>", "unk_token": "<UNK>", "pad_token": "<PAD>"}
TIDE = Tool(
    name="tide_table",
    description="When the tide is high",
    parameters={"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]},
)
CALLS = tuple(ToolCall(id=f"call_{at:024d}", name="tide_table", arguments='{"harbour": "Brest"}') for at in (1, 2))
TALKS: dict[str, tuple[Message, ...]] = {
    "plain": (Message(role="user", content="High tide?"),),
    "system": (Message(role="system", content="Be brief."), Message(role="user", content="High tide?")),
    "late system": (
        Message(role="user", content="Good day."),
        Message(role="assistant", content="And to you.", reasoning="A greeting."),
        Message(role="system", content="Be brief."),
        Message(role="user", content="High tide?"),
    ),
    "calls": (
        Message(role="user", content="High tide?"),
        Message(role="assistant", content="I look.", reasoning="I need the table.", tool_calls=CALLS),
        Message(role="tool", content="at noon", tool_call_id=CALLS[0].id),
        Message(role="tool", content="at night", tool_call_id=CALLS[1].id),
    ),
}
SWITCHES = ("enable_thinking", "thinking", "reasoning")
"""What templates call the switch for reasoning."""
DONE = "found by content, renders with and without tools, thinking on and off, passes the probe"


def problems(source: str, family: FamilyFile | None) -> Iterator[str]:
    """What is wrong with a template under its family."""
    if family is None:
        yield "no family recognises it"
        return
    renderer = Renderer(source, CONSTANTS, datetime.now)
    named = family.family
    for switch in (True, False):
        kwargs = {**named.template_kwargs, **dict.fromkeys(SWITCHES, switch)}
        for tools in ((), (TIDE,)):
            for talk, messages in TALKS.items():
                if talk != "calls" or tools:
                    yield from _rendered(renderer, named.tool_dialect, messages, tools, kwargs, f"{talk}, {switch}")
        for mismatch in probe(renderer, named.tool_dialect, named.reasoning_dialect, kwargs):
            yield mismatch.message


def _rendered(
    renderer: Renderer,
    dialect: str,
    messages: tuple[Message, ...],
    tools: tuple[Tool, ...],
    kwargs: dict[str, object],
    where: str,
) -> Iterator[str]:
    try:
        text = renderer.text(ChatPrompt(messages=messages, tools=tools, kwargs=kwargs, tool_dialect=dialect))
    except TemplateFailed as failure:
        yield f"{where}: {failure.message}"
        return
    words = [message.content or "" for message in messages if message.role != "assistant"]
    words += ["tide_table", "harbour"] if tools else []
    words += ["Brest"] if any(message.tool_calls for message in messages) else []
    for word in words:
        if word not in text:
            yield f"{where}: it does not show {word!r}"


def main(directory: str) -> int:
    families = load.families().values()
    wrong = 0
    for path in sorted(Path(directory).glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        family = recognise(Checkpoint("", (), source, SamplingPatch(), None, None, 0), families)
        found = list(dict.fromkeys(problems(source, family)))
        right = FAMILIES.get(path.stem)
        if family is not None and right not in (None, family.family.name):
            found.insert(0, f"its family is {right}")
        wrong += bool(found)
        print(f"{path.name}: {family.family.name if family else '-'}: {DONE if not found else 'not right'}")
        for problem in found:
            print(f"    {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
