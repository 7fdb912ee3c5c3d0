"""Who is let in, and what a key may ask for."""

import hmac
from dataclasses import replace
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest

from appliance.config.access import Key, Limits, Security
from appliance.config.deployment import Policy, Rewrite
from appliance.config.sampling import Decided
from appliance.config.secret import Secret
from appliance.control import keys
from appliance.control.keys import Asking, Ring, accept, check, namespace, permits, presented, priority
from appliance.errors import BadRequest, InvalidKey, NotAllowed
from appliance.vocab.request import Sampling

TODAY = date(2026, 11, 29)
LOW = Key(
    "ci", Secret("sk-ci"), ("fast", "gpt-4*"), Limits(), "low", "deny", date(2027, 1, 1), 3600.0, True, Policy()
)
HIGH = replace(LOW, name="ann", secret=Secret("sk-ann"), allow=("*",), priority="high", expires=None)
BOTH = Security(True, MappingProxyType({"ci": LOW, "ann": HIGH}))
STRICT = replace(BOTH, loopback_without_key=False)
NONE = Security()

ADMITTED: dict[str, tuple[Security, bool, str | None, bool, Key | None]] = {
    "a key from far": (BOTH, False, "sk-ci", False, LOW),
    "another key from far": (BOTH, False, "sk-ann", False, HIGH),
    "a key from here": (BOTH, False, "sk-ci", True, LOW),
    "nothing from here": (BOTH, False, None, True, None),
    "what a library sends, from here": (BOTH, False, "none", True, None),
    "no keys at all, from here": (NONE, False, None, True, None),
    "no keys at all, from far, insecure": (NONE, True, "any", False, None),
}


@pytest.mark.parametrize(("security", "open", "secret", "local", "key"), ADMITTED.values(), ids=ADMITTED)
def test_who_may_come_in_does(
    security: Security, open: bool, secret: str | None, local: bool, key: Key | None
) -> None:
    assert Ring.of(security, open=open).admit(Asking(secret, local, TODAY)) is key


REFUSED: dict[str, tuple[Security, bool, str | None, bool, date]] = {
    "nothing from far": (BOTH, False, None, False, TODAY),
    "an empty secret from far": (BOTH, False, "", False, TODAY),
    "a wrong secret from far": (BOTH, False, "sk-c", False, TODAY),
    "insecure does not open what has keys": (BOTH, True, None, False, TODAY),
    "no keys at all, from far": (NONE, False, "any", False, TODAY),
    "nothing from here where that needs a key": (STRICT, False, None, True, TODAY),
    "a wrong secret from here where that needs a key": (STRICT, False, "x", True, TODAY),
    "the day it expires": (BOTH, False, "sk-ci", False, date(2027, 1, 1)),
    "expired, from here": (BOTH, False, "sk-ci", True, date(2030, 1, 1)),
}


@pytest.mark.parametrize(("security", "open", "secret", "local", "day"), REFUSED.values(), ids=REFUSED)
def test_others_are_refused_without_a_word_of_what_they_sent(
    security: Security, open: bool, secret: str | None, local: bool, day: date
) -> None:
    with pytest.raises(InvalidKey) as refused:
        Ring.of(security, open=open).admit(Asking(secret, local, day))
    assert not secret or secret not in refused.value.message


def test_every_digest_is_compared_in_constant_time_and_no_secret_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ring, compared, original = Ring.of(BOTH), [], hmac.compare_digest

    def compare(known: bytes, sent: bytes) -> bool:
        compared.append((known, sent))
        return original(known, sent)

    monkeypatch.setattr(keys.hmac, "compare_digest", compare)
    assert ring.admit(Asking("sk-ci", False, TODAY)) is LOW
    assert [known for known, _ in compared] == [keys.digest("sk-ci"), keys.digest("sk-ann")]
    assert {sent for _, sent in compared} == {keys.digest("sk-ci")}


HEADERS = {
    "bearer": ({"authorization": "Bearer sk-1"}, "sk-1"),
    "bearer in other letters": ({"authorization": "bearer  sk-1 "}, "sk-1"),
    "x-api-key": ({"x-api-key": "sk-2"}, "sk-2"),
    "bearer before x-api-key": ({"authorization": "Bearer sk-1", "x-api-key": "sk-2"}, "sk-1"),
    "another scheme": ({"authorization": "Basic abc"}, None),
    "another scheme and x-api-key": ({"authorization": "Basic abc", "x-api-key": "sk-2"}, "sk-2"),
    "bearer of nothing": ({"authorization": "Bearer "}, None),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(("headers", "secret"), HEADERS.values(), ids=HEADERS)
def test_a_secret_is_found_under_either_header(headers: dict[str, str], secret: str | None) -> None:
    assert presented(headers) == secret


PASSWORDS = {
    "a password": ("Basic bWU6c2stMQ==", "sk-1"),
    "one with a colon": ("basic bWU6czpr", "s:k"),
    "nobody's": ("Basic OnNrLTE=", "sk-1"),
    "no password": ("Basic bWU=", None),
    "no base64": ("Basic bWU6c2stMQ", None),
    "no text": ("Basic 6en/", None),
    "a bearer": ("Bearer sk-1", "sk-1"),
}


@pytest.mark.parametrize(("sent", "secret"), PASSWORDS.values(), ids=PASSWORDS)
def test_a_password_counts_only_where_it_is_asked_for(sent: str, secret: str | None) -> None:
    assert presented({"authorization": sent}, basic=True) == secret
    assert presented({"authorization": sent}) == (secret if sent.startswith("Bearer") else None)


@pytest.mark.parametrize(
    ("key", "asked", "may"),
    [
        (LOW, "fast", True), (LOW, "fast:terse", True), (LOW, "gpt-4o", True), (LOW, "big", False),
        (LOW, "Fast", False), (LOW, "", False), (HIGH, "big", True), (HIGH, "anything", True), (None, "big", True),
    ],
)  # fmt: skip
def test_a_key_may_ask_for_the_names_it_is_given(key: Key | None, asked: str, may: bool) -> None:
    assert permits(key, asked) is may
    if may:
        check(key, asked)
    else:
        with pytest.raises(NotAllowed):
            check(key, asked)


def test_no_salt_leads_into_the_prefixes_of_another_key() -> None:
    spaces = [
        namespace(key, salt, "key") for key in (None, LOW, HIGH) for salt in ("", "ci", "ci:", "ann:x", ":", "x")
    ]
    assert len(set(spaces)) == len(spaces)


def test_shared_prefixes_are_everybodys_under_the_same_salt() -> None:
    assert {namespace(key, "x", "all") for key in (None, LOW, HIGH)} == {":x"}


@pytest.mark.parametrize("wish", [-(10**9), -1, 0, 1, 10**9])
def test_no_wish_passes_into_the_next_class(wish: int) -> None:
    assert priority(LOW, 10**9) < priority(None, wish) < priority(HIGH, -(10**9))
    assert priority(None, -1) < priority(None, 0) < priority(None, 1)


@pytest.mark.parametrize("rewrites", [(), (Rewrite("temperature", "locked", 0.7, 0),)])
def test_a_strict_key_is_told_instead_of_rewritten(rewrites: tuple[Any, ...]) -> None:
    decided = Decided(Sampling(), {}, rewrites)
    assert accept(None, decided) is decided
    assert accept(replace(LOW, strict_params=False), decided) is decided
    if rewrites:
        with pytest.raises(BadRequest) as refused:
            accept(LOW, decided)
        assert refused.value.param == "temperature"
    else:
        assert accept(LOW, decided) is decided
