"""A configuration may be shown when its secrets are covered."""

import pytest

from appliance.config.load import covered

TEXTS = {
    "in place": ("security: {keys: {a: {secret: planted}}}", "security: {keys: {a: {secret: *******}}}"),
    "quoted": ('security: {keys: {a: {secret: "planted"}}}', "security: {keys: {a: {secret: *********}}}"),
    "of a peer": ("routing: {peers: {p: {url: x, key: planted}}}", "routing: {peers: {p: {url: x, key: *******}}}"),
    "from elsewhere": ("security: {keys: {a: {secret: '${env:X}'}}}", "security: {keys: {a: {secret: '${env:X}'}}}"),
    "misspelt": ("security: {keys: {a: {secrte: planted}}}", "security: {keys: {a: {secrte: *******}}}"),
    "of several lines": (
        "security:\n  keys:\n    a:\n      secret: |\n        planted\n        below\n      allow: [m]",
        "security:\n  keys:\n    a:\n      secret: *\n***\n***\n      allow: [m]",
    ),
    "in what is no YAML": ("security: {keys: {a: {secret: planted, [", "security: {keys: {a: {secret: *******, ["),
    "no configuration at all": ("{{ messages }}\nhello: {{", "{{ messages }}\nhello: {{"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("text", "shown"), TEXTS.values(), ids=TEXTS.keys())
def test_secrets_are_covered_and_nothing_else(text: str, shown: str) -> None:
    assert "\n".join(covered(text, "deploy.yaml")) == shown
