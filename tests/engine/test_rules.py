"""Words as the ids that spell them."""

import pytest

from appliance.engine.fake.tokenizer import FakeTokenizer
from appliance.engine.rules import LONGEST_WORD, NO_RULES, Dry, Rules, rules_of
from appliance.errors import BadRequest
from appliance.vocab.request import TokenRules

TOKENIZER = FakeTokenizer(4)


def ids(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER.encode(text, special=False))


def test_nothing_asked_is_nothing_ruled() -> None:
    assert rules_of(TokenRules(), TOKENIZER) is NO_RULES


def test_a_word_is_banned_with_and_without_a_space_before_it() -> None:
    assert set(rules_of(TokenRules(bad_words=("abc",)), TOKENIZER).banned) == {ids("abc"), ids(" abc")}
    # Where the space makes it longer, it begins with a token of its own.
    assert set(rules_of(TokenRules(bad_words=("abcd",)), TOKENIZER).banned) == {ids("abcd")}


def test_a_word_has_its_bounds() -> None:
    with pytest.raises(BadRequest) as refused:
        rules_of(TokenRules(bad_words=("abcd" * LONGEST_WORD + "e",)), TOKENIZER)
    assert refused.value.param == "bad_words"


def test_xtc_without_a_chance_is_off() -> None:
    assert rules_of(TokenRules(xtc_threshold=0.3), TOKENIZER).xtc is None
    assert rules_of(TokenRules(xtc_probability=0.5), TOKENIZER).xtc == (0.5, 0.1)


def test_dry_is_off_without_a_multiplier_or_a_past() -> None:
    assert rules_of(TokenRules(dry_base=2.0), TOKENIZER) == Rules()
    assert rules_of(TokenRules(dry_multiplier=0.8, dry_penalty_last_n=0), TOKENIZER) == Rules()


def test_dry_breaks_at_the_token_its_texts_end_with() -> None:
    asked = TokenRules(dry_multiplier=0.8, dry_sequence_breakers=("xyz",), dry_penalty_last_n=64)
    ends = frozenset({ids("xyz")[-1], ids("axyz")[-1]})
    assert rules_of(asked, TOKENIZER).dry == Dry(0.8, 1.75, 2, 64, ends)
