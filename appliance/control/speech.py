"""How a model is spoken to and read, and whether that has got worse. PURE."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from appliance.config.deployment import ModelSpec
from appliance.config.overlay import merge_template

Mismatches = Mapping[str, str]
"""By what of template and dialects does not agree (tools, reasoning, template), why not."""


@dataclass(frozen=True, slots=True)
class Speech:
    """The template (None: the model's own), its variables as JSON, and the dialects."""

    template: str | None
    kwargs: str
    tools: str
    reasoning: str

    @classmethod
    def of(cls, model: ModelSpec) -> Self:
        family = model.family
        kwargs = merge_template([model.own.template, family.template_kwargs])
        return cls(
            model.template_text, json.dumps(kwargs, sort_keys=True), family.tool_dialect, family.reasoning_dialect
        )

    @property
    def variables(self) -> dict[str, Any]:
        """Those of the template."""
        read: dict[str, Any] = json.loads(self.kwargs)
        return read


def lost(before: Mismatches | None, now: Mismatches) -> tuple[str, ...]:
    """Why what agreed `before` does not agree any more. Of a model that was never heard (None) nothing is lost, nor
    of one whose template could not be used at all, for nobody knows what else was wrong with it.
    """
    if before is None or "template" in before:
        return ()
    return tuple(message for what, message in now.items() if what not in before)
