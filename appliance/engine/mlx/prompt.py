"""Renders messages with a checkpoint's chat template and turns the text into token ids."""

import json
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import jinja2
from mlx_lm.tokenizer_utils import load as load_tokenizer
from transformers import PreTrainedTokenizerBase

from appliance.engine.mlx.tokens import TokenBytes
from appliance.errors import LoadFailed, TemplateFailed
from appliance.vocab.request import Message, Tool
from appliance.vocab.spec import ChatPrompt

RESERVED = frozenset(signature(PreTrainedTokenizerBase.apply_chat_template).parameters) - {"kwargs"}
"""Names a template variable cannot have: the renderer's own."""

# Whatever a template does wrong with these messages, jinja's own errors aside.
_TEMPLATE_FAULTS = (
    jinja2.TemplateError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    RecursionError,
)


class PromptTokenizer:
    """Thread-safe: rendering compiles templates into jinja's own cache and touches no device."""

    def __init__(self, directory: Path, trust_remote_code: bool) -> None:
        """Raises LoadFailed, permanent."""
        try:
            extra = {"trust_remote_code": trust_remote_code}
            wrapper = load_tokenizer(directory, extra, eos_token_ids=_eos_ids(directory))
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise LoadFailed(f"{directory.name}: its tokenizer cannot be loaded: {error}", permanent=True) from error
        self._tokenizer = wrapper._tokenizer
        self._bytes = TokenBytes(self._tokenizer)
        self.eos_ids = frozenset(wrapper.eos_token_ids)
        added = self._tokenizer.added_tokens_decoder
        self.specials = {id: token.content for id, token in added.items() if token.special}

    def render(self, prompt: ChatPrompt) -> list[int]:
        """Token ids of the rendered conversation. Raises TemplateFailed with the template's own message."""
        if reserved := sorted(RESERVED & prompt.kwargs.keys()):
            field = f"chat_template_kwargs.{reserved[0]}"
            raise TemplateFailed(f"`{field}` is set by the server", param=field)
        template = prompt.template or self._tokenizer.chat_template
        if template is None:
            raise TemplateFailed(
                "this checkpoint has no chat template; set template.file in the deploy file", param="messages"
            )
        try:
            text = self._tokenizer.apply_chat_template(
                [_as_dict(message) for message in prompt.messages],
                tools=[_tool(tool) for tool in prompt.tools] or None,
                chat_template=template,
                tokenize=False,
                add_generation_prompt=not prompt.continue_final,
                continue_final_message=prompt.continue_final,
                **prompt.kwargs,
            )
        except (
            jinja2.TemplateError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            IndexError,
            RecursionError,
        ) as error:
            raise TemplateFailed(f"the chat template refused these messages: {error}", param="messages") from error
        return self._tokenizer.encode(text, add_special_tokens=False)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Token ids of a raw text; its beginning-of-sequence token is not doubled where the text brings it."""
        bos = self._tokenizer.bos_token
        return self._tokenizer.encode(text, add_special_tokens=special and not (bos and text.startswith(bos)))

    def text(self, tokens: Sequence[int]) -> str:
        """The text of these ids, special tokens written out."""
        return self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def raw(self, token: int) -> bytes:
        """The bytes a token adds to the text."""
        return self._bytes[token]

    def tokenizer_json(self) -> str | None:
        """What the tokenizers library would save; None for tokenizers of other libraries."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        return None if backend is None else backend.to_str()

    def id_of(self, text: str) -> int | None:
        """The id of the token that is exactly this text."""
        token = self._tokenizer.convert_tokens_to_ids(text)
        return None if token is None or token == self._tokenizer.unk_token_id else token


def _eos_ids(directory: Path) -> list[int] | None:
    """Ids that end an answer by generation_config.json, else config.json; None leaves it to the tokenizer."""
    for name in ("generation_config.json", "config.json"):
        file = directory / name
        ids = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id") if file.exists() else None
        if ids is not None:
            return list(ids) if isinstance(ids, list) else [ids]
    return None


def _as_dict(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"role": message.role, "content": message.content or ""}
    if message.name is not None:
        out["name"] = message.name
    if message.reasoning is not None:
        out["reasoning_content"] = message.reasoning
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        out["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return out


def _arguments(text: str) -> Any:
    """Most templates want a mapping and print it as JSON themselves; what is not JSON stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
