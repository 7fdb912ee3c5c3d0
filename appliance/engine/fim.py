"""How the two sides of a gap are written for models that were taught to fill it in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from appliance.errors import Unsupported
from appliance.vocab.request import TextPrompt


@dataclass(frozen=True, slots=True)
class Form:
    """The tokens before the left side, before the right side, and after both. `right_first`: the right side comes
    before the left one, behind its own token.
    """

    left: str
    right: str
    end: str | None
    right_first: bool = False


FORMS = (
    Form("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    Form("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    Form("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    Form("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    Form("<PRE>", "<SUF>", "<MID>"),
    Form("▁<PRE>", "▁<SUF>", "▁<MID>"),
    Form("[PREFIX]", "[SUFFIX]", None, right_first=True),
)
"""Of Qwen and CodeGemma, StarCoder and Granite, SantaCoder, DeepSeek, CodeLlama (twice) and Codestral, from their
makers' model cards.
"""


class Tokenizer(Protocol):
    """The part of a tokenizer that is needed here."""

    def encode(self, text: str, special: bool = True) -> list[int]: ...

    def id_of(self, text: str) -> int | None: ...


def fill_in(prompt: TextPrompt, tokenizer: Tokenizer) -> list[int]:
    """The ids of a prompt with a suffix. Raises Unsupported where the model has no tokens for that."""
    assert prompt.suffix is not None
    for form in FORMS:
        left, right = tokenizer.id_of(form.left), tokenizer.id_of(form.right)
        end = () if form.end is None else (tokenizer.id_of(form.end),)
        if left is not None and right is not None and None not in end:
            before, after = (tokenizer.encode(text, special=False) for text in (prompt.text, prompt.suffix))
            start = _start(tokenizer) if prompt.special else []
            last = [id for id in end if id is not None]
            sides = [right, *after, left, *before] if form.right_first else [left, *before, right, *after]
            return [*start, *sides, *last]
    raise Unsupported("`suffix` is not supported: this model has no tokens for filling in a middle", param="suffix")


def _start(tokenizer: Tokenizer) -> Sequence[int]:
    """What the tokenizer puts before every text."""
    plain, whole = tokenizer.encode("x", special=False), tokenizer.encode("x")
    return whole[: len(whole) - len(plain)] if whole[len(whole) - len(plain) :] == plain else []
