"""Whether a model's own chat template and its family's dialects agree: what is written must read back."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from appliance.cli.recognising import Subject
from appliance.config.deployment import Family
from appliance.text import dialects, reasoning
from appliance.text.probe import probe
from appliance.text.reasoning.format import Reasoning
from appliance.text.rendering import Renderer

CONSTANTS = {"bos_token": "<BOS>", "eos_token": "<EOS>", "unk_token": "<UNK>", "pad_token": "<PAD>"}
"""What a tokenizer would say: no dialect depends on it."""
NONE = "none"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why_not` says why there was nothing to test, `mismatches` what does not agree."""

    name: str
    family: Family
    mismatches: tuple[str, ...] = ()
    why_not: str = ""

    @property
    def tested(self) -> bool:
        return not self.why_not


def verdict(subject: Subject, forced: Family | None = None) -> Verdict:
    """The template under the model's family, or another, with each of its switches on and off."""
    family = forced or subject.family
    if subject.template is None:
        why_not = "it has no chat template" if subject.checkpoint else "its files are not here"
        return Verdict(subject.name, family, why_not=why_not)
    renderer = Renderer(subject.template, CONSTANTS, datetime.now)
    kwargs = forced.template_kwargs if forced else subject.kwargs
    found = [
        mismatch.message
        for variables in _switched(kwargs)
        for mismatch in probe(renderer, family.tool_dialect, family.reasoning_dialect, variables)
    ]
    return Verdict(subject.name, family, tuple(dict.fromkeys(found)))


def fitting(template: str) -> tuple[str, str]:
    """The tool dialect and the reasoning dialect that read back what a template writes; `none` where none does."""
    renderer = Renderer(template, CONSTANTS, datetime.now)

    def fits(what: str, tools: str, thinking: str) -> bool:
        return not any(m.what in (what, "template") for m in probe(renderer, tools, thinking, {}))

    # Several read what another writes and leave its tags: the one whose tags stand in the template is its own.
    calls = _likeliest(template, {row.name: row.tags for row in dialects.DIALECTS})
    tools = next((name for name in calls if fits("tools", name, NONE)), NONE)
    thoughts = _likeliest(template, {row.name: _opening(row) for row in reasoning.DIALECTS})
    return tools, next((name for name in thoughts if fits("reasoning", tools, name)), NONE)


def _opening(row: Reasoning) -> tuple[str, ...]:
    return row.open if row.frames is None else row.frames.tags[:1]


def _likeliest(template: str, tags: Mapping[str, Iterable[str]]) -> list[str]:
    """Those that have a tag of theirs in the template, the longest first."""
    longest = {name: max((len(tag) for tag in own if tag in template), default=0) for name, own in tags.items()}
    return sorted((name for name, length in longest.items() if length), key=lambda name: -longest[name])


def _switched(kwargs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The variables as they are, and with each switch the other way."""
    yield dict(kwargs)
    for name, value in kwargs.items():
        if isinstance(value, bool):
            yield {**kwargs, name: not value}
