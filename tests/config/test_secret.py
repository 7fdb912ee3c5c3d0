"""A secret is shown by nothing but the one method that gives it."""

import copy
import json
import pickle

import msgspec
import pytest

from appliance.config.secret import Secret

PLANTED = "planted-secret"


@pytest.mark.parametrize(
    "show",
    [str, repr, "{}".format, "{!r}".format, lambda s: f"{[s]}"],
    ids=["str", "repr", "format", "format repr", "inside a list"],
)
def test_no_text_of_a_secret_holds_it(show) -> None:  # type: ignore[no-untyped-def]
    assert PLANTED not in show(Secret(PLANTED))


@pytest.mark.parametrize("serialise", [json.dumps, pickle.dumps, msgspec.json.encode, msgspec.msgpack.encode])
def test_no_serialiser_takes_a_secret(serialise) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError):
        serialise({"key": Secret(PLANTED)})


def test_a_secret_is_equal_to_one_with_the_same_text_only() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_a_secret_stays_what_it_is() -> None:
    secret = Secret(PLANTED)
    assert secret.reveal() == PLANTED
    assert copy.deepcopy(secret) is secret
    assert copy.copy(secret) is secret
    with pytest.raises(AttributeError):
        secret._text = "other"
