"""Words as the ids that spell them."""

import pytest

from appliance.engine.fake.tokenizer import FakeTokenizer
from appliance.engine.rules import LONGEST_WORD, NO_RULES, rules_of
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
