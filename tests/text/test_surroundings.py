"""What counts as code, where a tag opens nothing; every row again with the text split at every character."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.text.surroundings import UNQUOTED, Fences, Surroundings

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


TEXTS = st.lists(st.sampled_from(["`", "```", "\n", "\n```", "x", " ", "<tool_call>"]), max_size=14).map("".join)


@given(TEXTS, st.data())
def test_a_grammar_and_a_parser_find_the_same_code(text, data):
    """The regular expression that grammars are given holds exactly where the parser of their answers does."""
    made = Fences()
    cut = data.draw(st.integers(0, len(text)))
    for piece in (text[:cut], text[cut:]):
        made.feed(piece)
    assert (re.fullmatch(UNQUOTED, text) is not None and not text.endswith("`")) is not made.quoted
