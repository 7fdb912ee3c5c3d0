"""One glob takes all that another takes, or there is a text that shows it does not."""

import fnmatch
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.config.globs import contains, takes_something

PAIRS = [
    ("*", "", True),
    ("*", "*", True),
    ("*", "?", True),
    ("?*", "*", False),
    ("?*", "*?", True),
    ("*?", "?*", True),
    ("beta*", "beta2", True),
    ("beta*", "beta", True),
    ("beta*", "beta2*", True),
    ("beta2*", "beta*", False),
    ("beta*", "*beta", False),
    ("*beta*", "beta*", True),
    ("*beta*", "?beta", True),
    ("*a*b*", "*b*a*", False),
    ("*a*", "*b*a*", True),
    ("*aa*", "*a*a*", False),
    ("*a*a*", "*aa*", True),
    ("a?", "a[bc]", True),
    ("a[bc]", "a?", False),
    ("a[a-d]", "a[bc]", True),
    ("a[!x]", "a[bc]", True),
    ("a[!c]", "a[bc]", False),
    ("[!a]*", "b*", True),
    ("[!a]*", "?*", False),
    ("[]a]", "]", True),
    ("[]a]", "[]]", True),
    ("[!]a]", "[b-d]", True),
    ("[", "[[]", True),
    ("[a", "[[]a", True),
    ("a[", "a*", False),
    ("[a-]", "-", True),
    ("[z-a]", "a", False),
    ("a", "[z-a]", True),
    ("/v1/*", "/v1/chat/*", True),
    ("/v1/*/*", "/v1/chat/*", True),
    ("/v1/*", "/v1*", False),
    ("*a" + "?" * 40, "b*", False),
    ("é*", "ée*", True),
    ("[a-\U0010ffff]", "[é-ü]", True),
]


@pytest.mark.parametrize(("outer", "inner", "holds"), PAIRS, ids=[f"{a} and {b}" for a, b, _ in PAIRS])
def test_a_glob_contains_another(outer: str, inner: str, holds: bool) -> None:
    assert contains(outer, inner) is holds


TEXTS = ["".join(text) for length in range(5) for text in product("abc-[]*?!", repeat=length)]
"""Enough to tell apart any two globs of the size made here."""


@pytest.mark.parametrize("examples", [150, pytest.param(10_000, marks=pytest.mark.proof)])
def test_it_is_what_trying_all_short_texts_says(examples: int) -> None:
    tokens = st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[b-c]", "[!]]", "[a-]", "[", "]", "-"])
    globs = st.lists(tokens, max_size=3).map("".join)

    @settings(max_examples=examples, deadline=None)
    @given(outer=globs, inner=globs)
    def holds(outer: str, inner: str) -> None:
        within, beyond = (re.compile(fnmatch.translate(glob)).match for glob in (inner, outer))
        assert contains(outer, inner) is all(beyond(text) for text in TEXTS if within(text))

    holds()


@pytest.mark.parametrize(
    ("glob", "holds"), [("*", True), ("a?", True), ("[", True), ("[!a]", True), ("[z-a]", False), ("x[b-a]*", False)]
)
def test_a_glob_takes_something_or_nothing(glob: str, holds: bool) -> None:
    assert takes_something(glob) is holds


def test_what_takes_too_long_is_not_called_contained() -> None:
    assert contains("*a" + "?" * 40, "*b*a" + "?" * 40) is False
