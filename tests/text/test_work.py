"""Twice the text is at most about twice the work and no more memory, whatever the text is."""

import sys
import tracemalloc

import pytest

from appliance.text import dialects
from tests.text.folding import channels
from tests.text.wire import WIRES

DECLARED = {"f": {}}
SIZE = 3_000


def texts_of(name: str) -> dict[str, str]:
    """Units that are repeated up to any length."""
    opener = dialects.find(name).openers[0].text
    return {
        "prose": "The ferry leaves at nine. ",
        "openers": opener,
        "openers on lines": opener + "\n",
        "calls": WIRES[name].calls([("f", {"a": [1, "x"]})]) + "\n",
        "false starts": "<" * 40 + "[[{{",
        "fences": "```\n",
    }


def work(name: str, text: str, size: int) -> int:
    """Function calls made, Python's own included."""
    made = channels(name, "think_tags", declared=DECLARED)
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += 1

    sys.setprofile(on_event)
    try:
        for at in range(0, len(text), size):
            made.pieces(text[at : at + size])
        made.closing_pieces()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", WIRES)
def test_work_grows_with_the_text_only(name):
    for unit in texts_of(name).values():
        once, twice = (unit * (times * SIZE // len(unit)) for times in (1, 2))
        assert work(name, twice, 4) < 2.2 * work(name, once, 4) + 1000, unit
        assert work(name, twice, len(twice)) < 2.2 * work(name, once, len(once)) + 1000, unit


@pytest.mark.parametrize("name", WIRES)
def test_a_long_string_is_read_in_large_pieces(name):
    wire = WIRES[name]
    text = wire.calls([("f", {"a": "words and words " * 2_000})])
    assert work(name, text, len(text)) < len(text) / 5


@pytest.mark.parametrize("name", WIRES)
def test_an_answer_takes_no_memory_of_its_own(name):
    made = channels(name, "think_tags", declared=DECLARED)
    tracemalloc.start()
    try:
        for unit in ("The ferry < leaves at nine. ", "\n\n ", "``` x\n"):
            for _ in range(400):
                made.pieces(unit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000
