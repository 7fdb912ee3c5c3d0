"""How the fake engine's text becomes tokens: ids carry their bytes, so they mean the same in every process."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from appliance.errors import TemplateFailed
from appliance.vocab.spec import ChatPrompt

END, START_TURN, END_TURN = 0, 1, 2
_SPECIAL = {END: "<|end|>", START_TURN: "<|im_start|>", END_TURN: "<|im_end|>"}
_WORDS = re.compile(rb"\s?\S+|\s")


@lru_cache(maxsize=1 << 16)
def raw(token: int) -> bytes:
    """The bytes of a token; none for special ones."""
    return token.to_bytes((token.bit_length() + 7) // 8, "big")[1:] if token >= 256 else b""


class FakeTokenizer:
    """Words cut into pieces of at most `token_bytes` bytes; refuses prompts that contain `refuse`."""

    eos_ids = frozenset({END})
    renderer = None

    def __init__(self, token_bytes: int, refuse: str | None = None, special: Sequence[str] = ()) -> None:
        """`special` are more special tokens, their ids counting on from the built-in ones."""
        self._token_bytes = token_bytes
        self._refuse = refuse
        self.vocab_size = 2 << (8 * token_bytes)
        self.specials = _SPECIAL | dict(enumerate(special, len(_SPECIAL)))
        self._ids = {text: id for id, text in self.specials.items()}
        self._special = re.compile("(" + "|".join(map(re.escape, special)) + ")") if special else None

    def encode(self, text: str, special: bool = True) -> list[int]:
        parts = self._special.split(text) if self._special is not None else [text]
        return [id for part in parts for id in ([self._ids[part]] if part in self._ids else self._words(part))]

    def _words(self, text: str) -> list[int]:
        size = self._token_bytes
        return [
            int.from_bytes(b"\x01" + word[at : at + size], "big")
            for word in _WORDS.findall(text.encode("utf-8", "surrogatepass"))
            for at in range(0, len(word), size)
        ]

    def render(self, prompt: ChatPrompt) -> list[int]:
        turns: list[tuple[str, str]] = [(m.role, m.content or "") for m in prompt.messages]
        if prompt.tools:
            tools = [msgspec.structs.replace(tool, mark=False) for tool in prompt.tools]
            turns.insert(0, ("tools", msgspec.json.encode(tools).decode()))
        if prompt.kwargs:
            turns.insert(0, ("kwargs", json.dumps(prompt.kwargs, sort_keys=True)))
        if self._refuse is not None and any(self._refuse in content for _, content in turns):
            raise TemplateFailed(f"the template refuses messages that contain {self._refuse!r}", param="messages")
        tokens: list[int] = []
        for role, content in turns:
            tokens += [START_TURN, *self.encode(f"{role}\n{content}"), END_TURN]
        if prompt.continue_final:
            return tokens[:-1]
        return [*tokens, START_TURN, *self.encode("assistant\n")]

    def text(self, tokens: Sequence[int]) -> str:
        shown = (self.specials.get(token, "").encode() or raw(token) for token in tokens)
        return b"".join(shown).decode("utf-8", "replace")

    def raw(self, token: int) -> bytes:
        return raw(token)

    def tokenizer_json(self) -> None:
        """Its ids are numbers of their own, so there is no vocabulary to keep to a grammar."""
        return

    def id_of(self, text: str) -> int | None:
        if text in self._ids:
            return self._ids[text]
        tokens = self.encode(text)
        return tokens[0] if len(tokens) == 1 else None


def text_of(tokens: Sequence[int]) -> str:
    """All of it as text, special tokens left out."""
    return b"".join(map(raw, tokens)).decode("utf-8", "replace")


def turns_of(tokens: Sequence[int]) -> list[tuple[str, str]]:
    """The (role, content) turns of a rendered prompt; text outside of turns is the user's."""
    turns: list[tuple[str, str]] = []
    turn: list[int] = []
    for token in [*tokens, END_TURN]:
        if token not in (START_TURN, END_TURN):
            turn.append(token)
            continue
        if turn:
            role, newline, content = text_of(turn).partition("\n")
            turns.append((role, content) if newline else ("user", role))
        turn = []
    return turns
