"""Renders messages with a checkpoint's chat template and turns the text into token ids."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from mlx_lm.tokenizer_utils import load as load_tokenizer
from transformers.utils.chat_template_utils import encode_marked_chat, mark_control_tokens

from appliance.engine.mlx.refusal import refused
from appliance.engine.mlx.tokens import TokenBytes
from appliance.errors import TemplateFailed
from appliance.text.rendering import Renderer
from appliance.text.template import Template
from appliance.vocab.spec import ChatPrompt


class PromptTokenizer:
    """Thread-safe: rendering compiles templates into jinja's own cache and touches no device."""

    def __init__(self, directory: Path, trust_remote_code: bool) -> None:
        """Raises LoadFailed, permanent."""
        try:
            extra = {"trust_remote_code": trust_remote_code}
            wrapper = load_tokenizer(directory, extra, eos_token_ids=_eos_ids(directory))
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise refused(directory, "its tokenizer cannot be loaded", error) from error
        self._tokenizer = wrapper._tokenizer
        self._bytes = TokenBytes(self._tokenizer)
        self.size = len(self._tokenizer)
        self.eos_ids = frozenset(wrapper.eos_token_ids)
        added = self._tokenizer.added_tokens_decoder
        self.specials = {id: token.content for id, token in added.items() if token.special}
        self._added = [token.content for token in added.values()]
        self._control = lru_cache(maxsize=8)(self._control_tokens)
        named = self._tokenizer.special_tokens_map
        constants = {name: token for name, token in named.items() if isinstance(token, str)}
        self.renderer = Renderer(self._tokenizer.chat_template, constants, datetime.now)

    def render(self, prompt: ChatPrompt) -> list[int]:
        """Token ids of the rendered conversation: what users and tools said holds no special tokens and none of the
        template's own marks. Raises TemplateFailed with the template's own message.
        """
        control = self._control(self.renderer.template(prompt))
        text = self.renderer.text(prompt, lambda said: mark_control_tokens(said, control))
        try:
            return encode_marked_chat(self._tokenizer, text)
        except ValueError as error:
            raise TemplateFailed(f"these messages imitate its marks: {error}", param="messages") from error

    def _control_tokens(self, template: Template) -> re.Pattern[str]:
        """Tokens that mean something to the model: special ones, and those the template writes."""
        special = set(self.specials.values())
        control = sorted((t for t in self._added if t in special or t in template.literal), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, control)) or "(?!)")

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

    def vocabulary(self) -> dict[str, int]:
        """Every token and its id, added ones included."""
        return dict(self._tokenizer.get_vocab())

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
