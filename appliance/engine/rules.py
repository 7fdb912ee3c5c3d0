"""A request's rules about tokens, with words as the token ids that spell them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from appliance.errors import BadRequest
from appliance.vocab.request import TokenRules

LONGEST_WORD = 16
"""Tokens of a bad word: so much of the past is looked at in each step."""


class Encodes(Protocol):
    """The part of a tokenizer that spells words."""

    def encode(self, text: str, special: bool = True) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Dry:
    """Don't repeat yourself, as in https://github.com/oobabooga/text-generation-webui/pull/5677: what a passage of
    `length` tokens costs that is about to be repeated. Passages lie in the last `window` tokens (None: in all) and
    hold no `breakers`.
    """

    multiplier: float
    base: float
    length: int
    window: int | None
    breakers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Rules:
    """`banned` are sequences of ids whose last one may not follow the others; `allowed` None allows all. `xtc` is a
    probability and a threshold. `scores` is how many candidates are told of each token of the prompt, if any are.
    """

    banned: tuple[tuple[int, ...], ...] = ()
    allowed: tuple[int, ...] | None = None
    xtc: tuple[float, float] | None = None
    scores: int | None = None
    dry: Dry | None = None


NO_RULES = Rules()


def rules_of(asked: TokenRules, tokenizer: Encodes, *, resumed: bool = False) -> Rules:
    """A prompt that was told before an engine died is not scored again. Raises BadRequest for a word of too many
    tokens.
    """
    if asked == TokenRules():
        return NO_RULES
    banned = {ids for word in asked.bad_words for ids in _spellings(word, tokenizer)}
    xtc = (asked.xtc_probability, asked.xtc_threshold) if asked.xtc_probability > 0 else None
    return Rules(tuple(sorted(banned)), asked.allowed, xtc, None if resumed else asked.scores, _dry(asked, tokenizer))


def _dry(asked: TokenRules, tokenizer: Encodes) -> Dry | None:
    if asked.dry_multiplier <= 0 or asked.dry_penalty_last_n == 0:
        return None
    window = asked.dry_penalty_last_n if asked.dry_penalty_last_n > 0 else None
    breakers = frozenset(end for text in asked.dry_sequence_breakers for end in _ends(text, tokenizer))
    return Dry(asked.dry_multiplier, asked.dry_base, asked.dry_allowed_length, window, breakers)


def _ends(text: str, tokenizer: Encodes) -> Iterator[int]:
    """The token a text ends with, alone and behind a word: as the original has it."""
    for spelled in (text, f"a{text}"):
        yield from tokenizer.encode(spelled, special=False)[-1:]


def _spellings(word: str, tokenizer: Encodes) -> Iterator[tuple[int, ...]]:
    """As it stands, and as a new word where that is another token: what vLLM bans."""
    plain = tuple(tokenizer.encode(word, special=False))
    spaced = tuple(tokenizer.encode(f" {word.lstrip()}", special=False))
    if not 0 < len(plain) <= LONGEST_WORD:
        raise BadRequest(
            f"`bad_words`: {word[:40]!r} is {len(plain)} tokens, at most {LONGEST_WORD} can be watched for",
            param="bad_words",
        )
    yield plain
    if len(spaced) == len(plain) and spaced[0] != plain[0]:
        yield spaced
