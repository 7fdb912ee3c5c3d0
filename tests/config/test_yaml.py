"""YAML as YAML 1.2 has it, with places, and nothing that YAML can be made to do to its reader."""

import math

import pytest

from appliance.config import source
from appliance.config.problem import Place, human
from appliance.config.source import Mapping, Scalar, Sequence, core

LAUGHS = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(8 * [f'*{old}'])}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("nul", "nul"),
        ("true", True), ("TRUE", True), ("false", False), ("tRUE", "tRUE"),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"),
        ("0", 0), ("-1", -1), ("+7", 7), ("007", 7), ("0o17", 15), ("0x1f", 31), ("1_000", "1_000"), ("0b1", "0b1"),
        ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("-1.5E-2", -0.015),
        (".inf", math.inf), ("-.Inf", -math.inf), ("9" * 500, "9" * 500), ("٣", "٣"),
        ("22:00", "22:00"), ("1.2.3", "1.2.3"), ("2026-11-29", "2026-11-29"), ("-", "-"), (".", "."),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_what_the_core_schema_says(text: str, value: object) -> None:
    found = core(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_a_float() -> None:
    found = core(".nan")
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"true"', "true"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("|\n  1\n", "1\n"),
        (">\n  a\n  b\n", "a b\n"),
        ("plain", "plain"),
    ],
)
def test_what_is_quoted_is_text(text: str, value: str) -> None:
    tree, problems = source.parse(text, "f")
    assert isinstance(tree, Scalar)
    assert source.natural(tree) == value
    assert not problems


def test_every_key_and_value_has_its_place() -> None:
    tree, _ = source.parse('a:\n  "b c": [x, "yy"]\n  d: {é: 1}\n', "f")
    assert isinstance(tree, Mapping)
    a = tree.entries["a"]
    assert a.key == Place("f", 1, 1, 2)
    assert isinstance(a.value, Mapping)
    b, d = a.value.entries["b c"], a.value.entries["d"]
    assert b.key == Place("f", 2, 3, 8)
    assert isinstance(b.value, Sequence)
    assert [item.place for item in b.value.items] == [Place("f", 2, 11, 12), Place("f", 2, 14, 18)]
    assert isinstance(d.value, Mapping)
    assert d.value.entries["é"].value.place == Place("f", 3, 10, 11)


def test_a_block_of_text_is_marked_at_its_first_character() -> None:
    tree, _ = source.parse("a: |\n  one\n  two\n", "f")
    assert isinstance(tree, Mapping)
    assert tree.entries["a"].value.place == Place("f", 1, 4, 5)


def test_an_explicit_key_wins_over_merged_ones_wherever_it_stands() -> None:
    tree, problems = source.parse("b: &b {x: 1, y: 1}\na: {x: 2, <<: *b}\nc: {<<: [{x: 3}, *b]}\n", "f")
    assert isinstance(tree, Mapping)
    assert not problems
    assert _texts(tree.entries["a"].value) == {"x": "2", "y": "1"}
    assert _texts(tree.entries["c"].value) == {"x": "3", "y": "1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: &a [*a]\n", "nested too deep; does an anchor contain itself?", id="an anchor in itself"),
        pytest.param("[" * 70 + "]" * 70, "nested too deep", id="seventy lists"),
        pytest.param("[" * 100_000, "E101", id="a hundred thousand lists"),
        pytest.param(LAUGHS, "unfolds to more than 200000 values", id="a billion laughs"),
        pytest.param("%YAML 3.0\n---\na: 1\n", "E101", id="another YAML"),
        pytest.param("\x00", "is not allowed in YAML", id="a zero"),
    ],
)
def test_hostile_text_is_a_problem_and_not_a_crash(text: str, said: str) -> None:
    _, problems = source.parse(text, "f")
    assert said in human(problems)
    assert bool(problems) == bool(said)


def _texts(node: source.Node) -> dict[str, str]:
    assert isinstance(node, Mapping)
    return {key: entry.value.text for key, entry in node.entries.items() if isinstance(entry.value, Scalar)}
