"""A conversation as the text a model reads: its template, fitted messages, and the variables beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from appliance.errors import TemplateFailed
from appliance.text import dialects, reasoning
from appliance.text.dialects.none import FORMAT as NO_TOOLS
from appliance.text.fit import Marked, fit
from appliance.text.reasoning.none import REASONING as NO_REASONING
from appliance.text.shape import Shape, shape
from appliance.text.template import RESERVED, Template, compiled
from appliance.vocab.spec import ChatPrompt

_TAG = "\ue0f0continued here\ue0f0"
"""Stands where an answer goes on, until the text is rendered."""


@dataclass(frozen=True, slots=True)
class Renderer:
    """`constants` are the template's variables that come from the tokenizer (`bos_token`, …), `own` the checkpoint's
    template, or several by their names. Thread-safe.
    """

    own: str | Mapping[str, str] | None
    constants: Mapping[str, str]
    now: Callable[[], datetime]
    shapes: dict[str, Shape] = field(default_factory=dict)

    def template(self, prompt: ChatPrompt) -> Template:
        """The compiled template of a prompt. Raises TemplateFailed where there is none."""
        source = prompt.template or (_chosen(self.own, prompt) if isinstance(self.own, Mapping) else self.own)
        if source is None:
            raise TemplateFailed(
                "this checkpoint has no chat template; set template.file in the deploy file", param="messages"
            )
        return compiled(source)

    def text(self, prompt: ChatPrompt, mark: Marked = str) -> str:
        """The text, up to where the answer goes on. Raises TemplateFailed with the template's own message."""
        if reserved := sorted(RESERVED & prompt.kwargs.keys()):
            name = f"chat_template_kwargs.{reserved[0]}"
            raise TemplateFailed(f"`{name}` is set by the server", param=name)
        template = self.template(prompt)
        continued = prompt.continue_final
        messages, variables = fit(
            prompt.messages,
            prompt.tools,
            self.shape(template),
            dialects.find(prompt.tool_dialect) or NO_TOOLS,
            reasoning.find(prompt.reasoning_dialect) or NO_REASONING,
            continued=continued,
            mark=mark,
        )
        if not continued:
            return self._rendered(template, messages, {**variables, **prompt.kwargs}, True)
        said = messages[-1]["content"] or ""
        messages[-1]["content"] = said + _TAG
        text, found, _ = self._rendered(template, messages, {**variables, **prompt.kwargs}, False).rpartition(_TAG)
        if not found or said.strip() not in text:
            raise TemplateFailed("the chat template does not show the answer to continue", param="messages")
        return text

    def shape(self, template: Template) -> Shape:
        """How the template wants conversations put; found out once."""
        known = self.shapes.get(template.source)
        if known is None:
            specials = self.constants.values()
            known = shape(lambda messages, variables: self._rendered(template, messages, variables, True), specials)
            self.shapes[template.source] = known
        return known

    def _rendered(
        self, template: Template, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any], prompts: bool
    ) -> str:
        date = self.now().strftime("%Y-%m-%d %H:%M")
        given = {"datetime": date, "documents": None, **self.constants, **variables}
        return template.render({**given, "messages": messages, "add_generation_prompt": prompts}, self.now)


def _chosen(named: Mapping[str, str], prompt: ChatPrompt) -> str | None:
    """The one for tools where there are some, as transformers chooses."""
    return (named.get("tool_use") if prompt.tools else None) or named.get("default")
