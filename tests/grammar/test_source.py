"""Grammars: what is accepted, and what is said of what is not."""

import json

import pytest

from appliance.errors import BadRequest
from appliance.grammar.ebnf import MAX_EBNF
from appliance.grammar.source import MAX_SOURCE, source
from appliance.vocab.request import Grammar

GOOD = [
    Grammar("json_object"),
    Grammar("json_schema", json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}})),
    Grammar("json_schema", json.dumps({"$defs": {"n": {"type": "null"}}, "anyOf": [{"$ref": "#/$defs/n"}]})),
    Grammar("json_schema", json.dumps({"enum": ["naïve", "漢字", 3, None]})),
    Grammar("json_schema", json.dumps({"type": "string", "pattern": "^[a-z]+$", "maxLength": 4})),
    Grammar("regex", "[0-9]{3}-[0-9]{4}"),
    Grammar("choice", json.dumps(["yes", "no", 'may"be'])),
    Grammar("lark", "start: /[ab]+/"),
    Grammar("lark", 'root ::= "yes" | no-way\nno-way ::= "no" [0-9]{1,3} # so far\n'),
    Grammar("lark", 'root ::= "caf\\u00e9 \\U0001F600" [\\u4e00-\\u9fff]+ "\\\\"'),
    Grammar("lark", 'list ::= "[" (item ("," item)*)? "]"\nitem ::= list | "1"\nroot ::= list'),
]

BAD = [
    (Grammar("json_schema", "{"), "json_schema"),
    (Grammar("json_schema", "[]"), "json_schema"),
    (Grammar("json_schema", json.dumps({"type": "wizard"})), "wizard"),
    (Grammar("json_schema", json.dumps({"$ref": "#/$defs/missing"})), "missing"),
    (Grammar("json_schema", json.dumps({"type": "string", "pattern": "("})), "json_schema"),
    (Grammar("regex", "("), "regex"),
    (Grammar("choice", "[]"), "non-empty"),
    (Grammar("choice", json.dumps([1, 2])), "non-empty"),
    (Grammar("choice", "no"), "choice"),
    (Grammar("lark", "start: nothing"), "lark"),
    (Grammar("lark", 'root ::= "a" nothing'), "nothing"),
    (Grammar("lark", 'start ::= "a"'), "root"),
    (Grammar("lark", 'root ::= "a'), "end of input"),
    (Grammar("lark", 'root ::= "a\\'), "lark"),
    (Grammar("lark", f'root ::= {"(" * 5000} "a"'), "lark"),
    (Grammar("lark", "root ::= " + '"a" ' * MAX_EBNF), "longer"),
    (Grammar("json_schema", " " * (MAX_SOURCE + 1)), "larger"),
]


@pytest.mark.parametrize("grammar", GOOD, ids=lambda g: f"{g.kind} {g.text[:40]}")
def test_valid_grammars_have_a_source(grammar: Grammar) -> None:
    assert source(grammar)


@pytest.mark.parametrize(("grammar", "words"), BAD, ids=lambda x: str(x)[:60])
def test_what_is_wrong_is_said_and_the_field_named(grammar: Grammar, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        source(grammar)
    assert words in caught.value.message
    assert caught.value.param == "response_format"
