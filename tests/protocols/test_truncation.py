"""A conversation that is cut to fit."""

import pytest

from appliance.protocols.truncation import shortened
from appliance.vocab.request import Message, Role

ROLES: dict[str, Role] = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def turns(text: str) -> tuple[Message, ...]:
    """A letter per turn: its role."""
    return tuple(Message(role=ROLES[letter], content=str(at)) for at, letter in enumerate(text))


CASES = {
    "the oldest turn and its answer": ("suaua", "sua"),
    "a call and its result go together": ("uataua", "ua"),
    "about a quarter": ("s" + "ua" * 8 + "u", "s" + "ua" * 6 + "u"),
    "nothing to cut": ("su", None),
    "only an answer to be continued": ("sua", None),
    "no user at all": ("s", None),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES.keys())
def test_the_oldest_turns_go_first(before: str, after: str | None) -> None:
    left = shortened(turns(before))
    said = None if left is None else "".join(next(k for k, v in ROLES.items() if v == m.role) for m in left)
    assert said == after
    assert left is None or left[-1] == turns(before)[-1]


def test_it_comes_to_an_end_at_the_last_question() -> None:
    left: tuple[Message, ...] | None = turns("s" + "ua" * 50 + "u")
    while left is not None:
        last, left = left, shortened(left)
    assert [message.role for message in last] == ["system", "user"]
