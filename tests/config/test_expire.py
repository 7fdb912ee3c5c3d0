"""A key that expires, in files as people write them."""

from datetime import date

import pytest

from appliance.config.expire import NotEditable, expired, key_in

DAY = date(2026, 11, 29)

TEXTS = {
    "a block": (
        "security:\n  keys:\n    ci:  # of the robots\n      secret: x\n      allow: [a]\n    ann: {secret: y}\n",
        "security:\n  keys:\n    ci:  # of the robots\n      expires: 2026-11-29\n      secret: x\n      allow: [a]\n"
        "    ann: {secret: y}\n",
    ),
    "braces": ("security: {keys: {ci: {secret: x}}}", "security: {keys: {ci: {expires: 2026-11-29, secret: x}}}"),
    "JSON": (
        '{"security": {"keys": {"ci": { "secret": "x"}}}}',
        '{"security": {"keys": {"ci": {"expires": "2026-11-29",  "secret": "x"}}}}',
    ),
    "a later day": (
        "security:\n  keys:\n    ci:\n      secret: x\n      expires: 2027-06-30  # soon\n",
        "security:\n  keys:\n    ci:\n      secret: x\n      expires: 2026-11-29  # soon\n",
    ),
    "a later day in quotes": (
        'security: {keys: {ci: {expires: "2027-06-30", secret: x}}}',
        "security: {keys: {ci: {expires: 2026-11-29, secret: x}}}",
    ),
    "letters of two units": (
        "# 𝔘nicode\nsecurity: {keys: {é: {secret: 𝔘}, ci: {secret: 𝔘}}}",
        "# 𝔘nicode\nsecurity: {keys: {é: {secret: 𝔘}, ci: {expires: 2026-11-29, secret: 𝔘}}}",
    ),
    "merged from others": (
        "x: &a {secret: x}\nsecurity:\n  keys:\n    ci:\n      <<: *a\n    ann: *a\n",
        "x: &a {secret: x}\nsecurity:\n  keys:\n    ci:\n      expires: 2026-11-29\n      <<: *a\n    ann: *a\n",
    ),
    "lines of Windows": (
        "security:\r\n  keys:\r\n    ci:\r\n      secret: x\r\n",
        "security:\r\n  keys:\r\n    ci:\r\n      expires: 2026-11-29\n      secret: x\r\n",
    ),
}


@pytest.mark.parametrize(("text", "after"), TEXTS.values(), ids=TEXTS)
def test_only_the_day_changes(text: str, after: str) -> None:
    assert expired(text, "deploy.yaml", "ci", DAY) == after


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("security: {keys: {ann: &a {secret: x}, ci: *a}}", id="two keys are one"),
        pytest.param("security: {keys: {ci: &a {secret: x}, ann: *a}}", id="another is made of it"),
        pytest.param("x: &a\n  secret: x\nsecurity: {keys: {ci: *a}}", id="it is made of something else"),
        pytest.param("security:\n  keys:\n    ci: &c\n      secret: x\n", id="an anchor"),
        pytest.param("security: {keys: {ci: &c {secret: x}}}", id="an anchor before braces"),
    ],
)
def test_what_would_change_another_is_left_to_people(text: str) -> None:
    with pytest.raises(NotEditable, match="others may share"):
        expired(text, "deploy.yaml", "ci", DAY)


@pytest.mark.parametrize("text", ["", "a: b", "security: {keys: {ci: secret}}", "security: {keys: {cx: {}}}", "{"])
def test_a_file_without_the_key_is_said_to_be_so(text: str) -> None:
    assert key_in(text, "deploy.yaml", "ci") is None
    with pytest.raises(NotEditable, match="does not hold the key ci"):
        expired(text, "deploy.yaml", "ci", DAY)
