"""What counts as code, where a tag opens nothing; every row again with the text split at every character."""

import pytest

from appliance.text.surroundings import Surroundings

CASES = [
    ("", False),
    ("plain", False),
    ("say `", True),
    ("say `x` and", False),
    ("```\n", True),
    ("```python\ncode\n", True),
    ("```\ncode\n```", False),
    ("```\ncode\n```\nafter", False),
    ("text\n   ```\n", True),
    ("text\n    ```\n", False),
    ("in text ``` no fence\n", False),
    ("```one line```\n", False),
    ("~~~\n```\n", True),
    ("~~~\n```\n~~~\n", False),
    ("````\n```\n", True),
    ("````\n```\n````\n", False),
    ("```\n```text\n", True),
    ("```\nx\n```<tag>\n", False),
    ("```" + "x" * 200 + "\n", True),
    ("~" * 200 + "\ncode", True),
]


@pytest.mark.parametrize(("text", "quoted"), CASES, ids=[repr(text[:30]) for text, _ in CASES])
def test_code_is_told_from_text(text, quoted):
    for pieces in ([text], list(text), [text[: len(text) // 2], text[len(text) // 2 :]]):
        made = Surroundings()
        for piece in pieces:
            made.feed(piece)
        assert made.quoted is quoted
