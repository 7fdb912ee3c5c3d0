"""What is told of a prompt's own tokens."""

import pytest

from appliance.protocols.prompt_logprobs import listed
from appliance.vocab.event import TokenLogprob, TopToken

TOP = tuple(TopToken(text, -0.5 - at, text.encode(), at) for at, text in enumerate("abc"))
TOKENS: dict[str, tuple[TokenLogprob, int, dict[str, int]]] = {
    "the likeliest": (TokenLogprob("a", -0.5, b"a", TOP[:2], 0, 1), 2, {"0": 1, "1": 2}),
    "one far behind": (TokenLogprob("z", -9.5, b"z", TOP[:2], 99, 4711), 2, {"99": 4711, "0": 1, "1": 2}),
    "without candidates": (TokenLogprob("c", -2.5, b"c", (), 2, 3), 0, {"2": 3}),
    "as likely as another": (TokenLogprob("b", -0.5, b"b", TOP[:2], 1, 1), 2, {"1": 2, "0": 1}),
}


@pytest.mark.parametrize(("token", "most", "ranks"), TOKENS.values(), ids=TOKENS.keys())
def test_each_token_is_told_with_its_rank(token: TokenLogprob, most: int, ranks: dict[str, int]) -> None:
    first, told = listed([TokenLogprob("x", 0.0, b"x"), token], most)
    assert first is None
    assert told is not None
    assert {id: one["rank"] for id, one in told.items()} == ranks
    assert next(iter(told.values()))["decoded_token"] == token.token
