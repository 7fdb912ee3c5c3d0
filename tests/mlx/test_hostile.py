"""Values at the edge of what numbers hold: no row may reach outside its own memory, or change another's tokens."""

from pathlib import Path

import mlx.core as mx
import pytest

from appliance.engine.adapter import Adapters
from appliance.engine.constraint import Grammars
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.filters import draw_covered, draw_narrow, draw_plain, draw_wide
from appliance.engine.mlx.prompt import PromptTokenizer
from appliance.engine.prepare import Preparer
from appliance.errors import BadRequest, TemplateFailed
from appliance.vocab.request import Message, Sampling, ToolCall
from appliance.vocab.spec import ChatPrompt, Submission
from tests.mlx.driving import Job, backend, run

VOCABULARY = 300
EDGES = [
    Sampling(temperature=5e-324),
    Sampling(temperature=1e-40, frequency_penalty=0.5),
    Sampling(temperature=1.0, top_p=0.0),
    Sampling(temperature=1.0, top_p=1e-300),
    Sampling(temperature=1.0, top_p=0.0, top_k=1),
    Sampling(temperature=1.0, top_k=2**31 - 1, top_p=0.5),
    Sampling(temperature=1.0, min_p=1.0),
    Sampling(temperature=1.0, repetition_penalty=1e-300),
    Sampling(temperature=0.0, repetition_penalty=1e-40, presence_penalty=2.0),
    Sampling(temperature=2.0, logit_bias=dict.fromkeys(range(VOCABULARY), -100.0)),
    Sampling(temperature=1.0, logprobs=20, top_p=0.0),
]


@pytest.fixture(scope="module")
def engine(tiny_vocab_llama: Path) -> MlxBackend:
    return backend(tiny_vocab_llama)


@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_a_row_at_the_edge_gives_real_tokens_and_leaves_its_neighbour_alone(
    engine: MlxBackend, edge: Sampling
) -> None:
    neighbour = Job(1, [9, 8, 7], Sampling(temperature=0.9, seed=4, frequency_penalty=0.7), tokens=8)
    run(engine, [neighbour])
    alone, neighbour.got = neighbour.text, []
    odd = Job(2, [5, 6, 7], edge, tokens=8)
    run(engine, [neighbour, odd])
    assert neighbour.text == alone
    assert all(0 <= token < VOCABULARY for token in odd.text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_draw_from_no_numbers_stays_within_the_vocabulary(value: float) -> None:
    rows = mx.array([[value] * 400, [value, *[0.0] * 399]])
    off, one, chances = mx.array([0, 0]), mx.array([1.0, 1.0]), mx.array([0.0, 0.999999])
    none = mx.array([0.0, 0.0])
    drawn = [
        draw_plain(rows, chances),
        draw_narrow(rows, mx.array([20, 20]), one, none, 20, chances),
        draw_wide(rows, off, one, none, chances),
        draw_covered(rows, off, one, none, chances)[0],
    ]
    assert all(0 <= token < 400 for tokens in drawn for token in tokens.tolist())


@pytest.fixture(scope="module")
def preparer(tiny_vocab_llama: Path) -> Preparer:
    tokenizer = PromptTokenizer(tiny_vocab_llama, trust_remote_code=False)
    grammars = Grammars(tokenizer.tokenizer_json, VOCABULARY, tokenizer.eos_ids)
    return Preparer(tokenizer, VOCABULARY, lambda: 512, grammars, Adapters({}))


def submission(prompt: ChatPrompt, **sampling: object) -> Submission:
    return Submission(id=1, prompt=prompt, sampling=Sampling(**sampling), context=512)  # type: ignore[arg-type]


HI = ChatPrompt(messages=(Message(role="user", content="hi"),))


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        ({"logit_bias": {VOCABULARY: 1.0}}, "logit_bias"),
        ({"logit_bias": {2**31 - 1: 1.0}}, "logit_bias"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
        ({"stop_token_ids": (100_000_000,), "min_tokens": 3}, "stop_token_ids"),
    ],
    ids=str,
)
def test_token_ids_past_the_vocabulary_are_refused(
    preparer: Preparer, sampling: dict[str, object], param: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        preparer.prepare(submission(HI, **sampling), 1)
    assert caught.value.param == param


@pytest.mark.parametrize("name", ["messages", "chat_template", "self", "strftime_now", "tools"])
def test_a_template_variable_of_the_renderers_own_is_refused_by_name(preparer: Preparer, name: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        preparer.prepare(submission(ChatPrompt(messages=HI.messages, kwargs={name: 1})), 1)
    assert caught.value.param == f"chat_template_kwargs.{name}"


@pytest.mark.parametrize("arguments", ['{"a":' * 900 + "1" + "}" * 900, "[" * 100_000, "not json", '"text"'])
def test_arguments_of_any_shape_are_rendered_or_refused(preparer: Preparer, arguments: str) -> None:
    call = Message(role="assistant", tool_calls=(ToolCall(id="1", name="f", arguments=arguments),))
    template = (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}"
        "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
    )
    try:
        prepared = preparer.prepare(submission(ChatPrompt(messages=(call,), template=template)), 1)
    except BadRequest as error:
        assert error.param == "messages"
    else:
        assert prepared.known
