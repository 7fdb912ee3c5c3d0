"""A family file to begin with, for a model no family recognises. PURE."""

import json
import re
from collections.abc import Iterable

from appliance.config.checkpoint import Checkpoint

_TAG = re.compile(r"<[|｜]?[^\s<>{}'\"|｜]{2,40}[|｜]?>|\[/?[A-Z][A-Z_]{2,20}\]")
_MOST = 6


def texts(template: str, common: Iterable[str]) -> list[str]:
    """The tags of a template that tell it from others: those that no `common` template has first, at most six."""
    found = list(dict.fromkeys(_TAG.findall(template)))
    rare = sorted(found, key=lambda tag: sum(tag in other for other in common))
    return sorted(rare[:_MOST], key=found.index)


def draft(name: str, checkpoint: Checkpoint | None, tags: list[str], tools: str, reasoning: str) -> str:
    """The text of a family file. Dialects are those that were tried and found to fit, or `none`."""
    model_type = checkpoint.model_type if checkpoint else ""
    groups = [f"  model_type: [{_quoted(model_type)}]"] if model_type else []
    groups += [f"  template_has: [{', '.join(map(_quoted, tags))}]"] if tags else []
    match = groups or ["  model_type: [the model_type of its config.json]"]
    return "\n".join(
        [
            "# yaml-language-server: $schema=family.schema.json",
            f"family: {_quoted(name)}",
            "match:",
            *match,
            f"dialects: {{reasoning: {reasoning}, tools: {tools}}}",
            "#template:",
            "#  kwargs: {enable_thinking: true}",
            "#  roles: {developer: system}",
            '#stop: {tokens: ["<|im_end|>"]}',
            "#sampling: {temperature: 0.7, top_p: 0.8}",
            "#aliases:",
            f'#  {name}-4bit: {{source: "hf:owner/name", memory: 3GiB}}',
            "source:",
            '  card: "where these facts come from: the maker\'s model card"',
            "",
        ]
    )


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_][\w.]*", text, re.ASCII) else json.dumps(text, ensure_ascii=False)
