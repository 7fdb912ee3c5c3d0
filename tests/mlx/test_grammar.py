"""Constrained rows: every answer that ends satisfies its grammar, whatever the model would have liked to say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from appliance.engine.answer import Wanted
from appliance.engine.budget import Budget
from appliance.engine.constraint import NO_GRAMMAR, Grammars
from appliance.engine.holding import hold
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.prompt import PromptTokenizer
from appliance.engine.rules import Rules
from appliance.errors import BadRequest
from appliance.text import dialects, reasoning
from appliance.text.channels import Channels
from appliance.text.reasoning.format import Start
from appliance.vocab.request import Grammar, Sampling
from tests.mlx.driving import Job, backend, run

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["cat", "dog"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}
STOPS = frozenset({0, 2})
VOCABULARY = 300


@pytest.fixture(scope="module")
def engine(tiny_vocab_llama: Path) -> MlxBackend:
    return backend(tiny_vocab_llama)


@pytest.fixture(scope="module")
def tokenizer(tiny_vocab_llama: Path) -> PromptTokenizer:
    return PromptTokenizer(tiny_vocab_llama, trust_remote_code=False)


@pytest.fixture(scope="module")
def grammars(tokenizer: PromptTokenizer) -> Grammars:
    return Grammars(tokenizer.tokenizer_json, 300, tokenizer.eos_ids)


def said(tokenizer: PromptTokenizer, job: Job) -> str:
    end = next((place for place, token in enumerate(job.text) if token in STOPS), len(job.text))
    return b"".join(map(tokenizer.raw, job.text[:end])).decode(errors="replace")


def job(id: int, grammars: Grammars, grammar: Grammar, tokens: int = 120, **more: object) -> Job:
    sampling = Sampling(temperature=1.0, seed=id)
    constraint = grammars.compile(grammar)
    return Job(id, [5, 6, 7 + id], sampling, tokens=tokens, constraint=constraint, stop_ids=STOPS, **more)  # type: ignore[arg-type]


def test_answers_under_a_schema_validate(engine: MlxBackend, tokenizer: PromptTokenizer, grammars: Grammars) -> None:
    jobs = [job(id, grammars, Grammar("json_schema", json.dumps(SCHEMA)), at=id % 3) for id in range(8)]
    run(engine, jobs)
    for done in jobs:
        jsonschema.validate(json.loads(said(tokenizer, done)), SCHEMA)


NO_WAY_OUT = {
    "a bad word": ("abcd", Rules(banned=((68,),))),
    "allowed tokens": ("[a-f]{5}", Rules(allowed=tuple(range(3, 20)))),
    "the likely left out": ("[ab]{12}", Rules(xtc=(1.0, 1e-4))),
}


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("against", NO_WAY_OUT)
def test_a_grammar_wins_over_rules_that_leave_it_no_token(
    engine: MlxBackend, tokenizer: PromptTokenizer, grammars: Grammars, against: str, temperature: float
) -> None:
    pattern, rules = NO_WAY_OUT[against]
    assert tokenizer.raw(68) == b"b"
    done = job(1, grammars, Grammar("regex", pattern), 30, rules=rules)
    done.sampling = Sampling(temperature=temperature, seed=1)
    run(engine, [done])
    assert re.fullmatch(pattern, said(tokenizer, done))


@pytest.mark.parametrize(
    ("grammar", "pattern"),
    [
        (Grammar("regex", "[0-9]{3}-[a-f]{4}"), "[0-9]{3}-[a-f]{4}"),
        (Grammar("choice", json.dumps(["yes", "no", "naïve"])), "yes|no|naïve"),
        (Grammar("lark", 'start: "a" /[xyz]+/ "b"'), "a[xyz]+b"),
    ],
    ids=["regex", "choice", "lark"],
)
def test_answers_match_other_grammars(
    engine: MlxBackend, tokenizer: PromptTokenizer, grammars: Grammars, grammar: Grammar, pattern: str
) -> None:
    jobs = [job(id, grammars, grammar, tokens=60) for id in range(4)]
    run(engine, jobs)
    for done in jobs:
        assert re.fullmatch(pattern, said(tokenizer, done)), said(tokenizer, done)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "number"},
        {"type": ["integer", "null"]},
        {"type": "array", "items": {"type": "number", "minimum": 0}, "maxItems": 2},
        {"type": "object", "properties": {"type": {"type": "integer"}}, "additionalProperties": False},
    ],
    ids=json.dumps,
)
def test_numbers_come_to_an_end(
    engine: MlxBackend, tokenizer: PromptTokenizer, grammars: Grammars, schema: dict[str, object]
) -> None:
    digits = {token: 100.0 for token in range(VOCABULARY) if tokenizer.raw(token).isdigit()}
    constraint = grammars.compile(Grammar("json_schema", json.dumps(schema)))
    sampling = Sampling(temperature=0, logit_bias=digits)
    endless = Job(1, [5, 6, 7], sampling, tokens=120, constraint=constraint, stop_ids=STOPS)
    run(engine, [endless])
    jsonschema.validate(json.loads(said(tokenizer, endless)), {"type": schema["type"]})


def test_a_constrained_row_leaves_its_neighbours_alone(engine: MlxBackend, grammars: Grammars) -> None:
    free = [Job(id, [9, 8, 7, id + 3], Sampling(temperature=1.0, seed=id), tokens=12) for id in range(4)]
    together = [replace(each, got=[]) for each in free]
    bound = job(9, grammars, Grammar("json_object"), tokens=12)
    run(engine, [*together, bound])
    for alone, beside in zip(free, together, strict=True):
        run(engine, [alone])
        assert alone.text == beside.text


def test_a_constrained_row_gives_the_same_alone_and_after_an_interruption(
    engine: MlxBackend, grammars: Grammars
) -> None:
    grammar = Grammar("json_schema", json.dumps(SCHEMA))
    whole = job(3, grammars, grammar, tokens=20)
    run(engine, [whole])
    rest = job(3, grammars, grammar, tokens=12, emitted=whole.text[:8])
    run(engine, [rest, job(4, grammars, grammar, tokens=12)])
    assert whole.text == whole.text[:8] + rest.text


def test_a_wrong_grammar_is_refused_before_anything_runs(grammars: Grammars) -> None:
    with pytest.raises(BadRequest):
        grammars.compile(Grammar("json_schema", json.dumps({"type": "wizard"})))


def test_reasoning_over_its_budget_is_ended_and_the_answer_keeps_to_its_grammar(
    engine: MlxBackend, tokenizer: PromptTokenizer, grammars: Grammars
) -> None:
    thinking = reasoning.find("think_tags")
    none = dialects.find("none")
    assert thinking is not None
    assert none is not None
    form = Grammar("json_schema", json.dumps({"type": "integer", "minimum": 0, "maximum": 9}))
    held = hold(grammars, Wanted((), True, form, "<think>", Start.INSIDE), none, thinking)
    assert held.constraint is not None
    closing = tokenizer.encode("</think>", special=False)
    budget = Budget(6, closing, lambda: Channels(reasoning=thinking, new_id=str, prompt="<think>"), tokenizer)
    constraint = held.constraint.watched(budget.watch)
    free = NO_GRAMMAR.watched(budget.watch)
    jobs = [
        Job(id, [5, 6, 7 + id], Sampling(temperature=1.0, seed=id), tokens=40, constraint=each, stop_ids=STOPS)
        for id, each in enumerate([constraint, constraint, free])
    ]
    run(engine, jobs)
    for done in jobs:
        _, end, answer = said(tokenizer, done).partition("</think>")
        assert end
        assert any(done.text[at : at + len(closing)] == closing for at in range(6, 10))
        if done.constraint is constraint:
            assert answer.strip() in list("0123456789")
