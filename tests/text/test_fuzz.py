"""Whatever a model writes: nothing is raised, lost or reordered, and the split does not matter.

`pytest -m proof tests/text/test_fuzz.py` tries 2 000 texts with every format.
"""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.text import dialects, reasoning
from appliance.vocab.event import ToolCallDelta
from tests.text.folding import channels, fold
from tests.text.wire import WIRES

PARTS = [
    *"a \né🛶`<>|{}[]()\"'\\:,=;1",
    *("```", "```json\n", "~~~\n", "-2.5", "true", "None", "f", "f(", "f(a=1)", "all\n", "f\n", "function"),
    *('{"name": "f"', '"arguments": {', '{"name": "f", "arguments": {"a": "b"}}', '{"a": 1}', "call:f{", '"f"'),
    *("assistant", "analysis", " to=functions.f", "<parameter=a>", "</parameter>", "</function>"),
    *("<arg_key>a</arg_key>", "<arg_value>", "</arg_value>", "<response>", "</response>"),
]
BARE_TEXT = {
    *("qwen3_coder", "seed_oss", "minimax_m2", "deepseek_dsml", "deepseek_dsml_v4", "glm45", "glm47", "minicpm"),
    *("step", "gemma4", "kimi_k3"),
}
"""Formats whose strings are not escaped: some cannot be told from markup."""
FRAMED = {"harmony", "functionary_v32", "kimi_k3"}
"""Formats with headers, which are dropped whatever follows."""
DECLARED = {"f": {"properties": {"a": {"type": ["integer", "null"]}}}}

examples = pytest.mark.parametrize("examples", [30, pytest.param(2_000, marks=pytest.mark.proof)])


def tags_of(tools, thinks) -> list[str]:
    own = [opener.text for opener in tools.openers]
    return [*own, *tools.markers, *thinks.markers, *reasoning.find("think_tags").markers]


def texts(tags: list[str]) -> st.SearchStrategy[str]:
    """Its own tags often, all kinds of pieces between them, whole calls now and then."""
    part = st.one_of(
        st.sampled_from(tags or PARTS), st.sampled_from(PARTS), st.sampled_from(tags or PARTS), st.text(max_size=3)
    )
    return st.lists(part, max_size=25).map("".join)


def leftover(gap: str, tags: list[str]) -> str:
    for tag in sorted(tags, key=len, reverse=True):
        gap = gap.replace(tag, "")
    return re.sub(r"\s|assistant|analysis|all\n|json", "", gap)


@pytest.mark.parametrize("row", dialects.DIALECTS, ids=lambda row: row.name)
@examples
def test_every_character_is_accounted_for(row, examples):
    @settings(max_examples=examples, deadline=None)
    @given(data=st.data())
    def holds(data):
        thinks = data.draw(st.sampled_from([reasoning.find(WIRES[row.name].thinks if row.name in WIRES else "none"),
                                            reasoning.find("none")]))  # fmt: skip
        tags = tags_of(row, thinks)
        text = data.draw(texts(tags))
        prompt = data.draw(st.sampled_from(["", row.start, "<think>\n"]))
        cut = data.draw(st.booleans())
        make = lambda: channels(row.name, thinks.name, declared=DECLARED, prompt=prompt)  # noqa: E731

        size = data.draw(st.integers(1, 9))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        whole = fold(make(), [text], cut=cut)
        assert fold(make(), list(text), cut=cut) == whole
        assert fold(make(), pieces, cut=cut) == whole

        made = make()
        told = [piece for part in pieces for piece in made.pieces(part)] + made.closing_pieces(cut=cut)
        assert made.resolved == len(text)
        end = 0
        for piece in [*told, None]:
            start = len(text) if piece is None else piece.start
            assert end <= start
            called = piece is not None and isinstance(piece.delta, ToolCallDelta)
            if not called and not made.calls and row.name not in FRAMED:
                assert leftover(text[end:start], tags) == ""
            if piece is not None and not called:
                assert text[piece.start : piece.end] == piece.delta.text
            end = start if piece is None else piece.end

    holds()


@pytest.mark.parametrize("row", reasoning.DIALECTS, ids=lambda row: row.name)
@examples
def test_reasoning_and_answer_are_all_the_text(row, examples):
    @settings(max_examples=examples, deadline=None)
    @given(data=st.data())
    def holds(data):
        tags = tags_of(dialects.find("none"), row)
        text = data.draw(texts(tags))
        inside = data.draw(st.booleans())
        folded = fold(channels("none", row.name, inside=inside), [text])
        assert fold(channels("none", row.name, inside=inside), list(text)) == folded
        assert folded.calls == []
        plain = re.sub(r"\s", "", text)
        if not any(tag in text for tag in tags):
            assert re.sub(r"\s", "", folded.reasoning + folded.content) == plain

    holds()


@pytest.mark.parametrize("name", [name for name in WIRES if name not in BARE_TEXT])
@examples
def test_whatever_a_string_holds_comes_back(name, examples):
    @settings(max_examples=examples, deadline=None)
    @given(data=st.data())
    def holds(data):
        wire = WIRES[name]
        value = data.draw(texts(tags_of(dialects.find(name), reasoning.find("none"))))
        written = wire.calls([("f", {"a": value})])
        declared = {"f": {"properties": {"a": {"type": "string"}}}}
        frames = "harmony" if name == "harmony" else "none"
        folded = fold(channels(name, frames, declared=declared, prompt=wire.prompt), [wire.say("") + written])
        assert [(tool, json.loads(arguments)) for tool, arguments in folded.calls] == [("f", {"a": value})]

    holds()
