"""Templates of many shapes: what each is given, and that all that was said is in what it makes of it."""

from dataclasses import replace
from datetime import datetime

import pytest

from appliance.errors import TemplateFailed
from appliance.text.rendering import Renderer
from appliance.text.shape import Shape
from appliance.text.template import compiled
from appliance.vocab.request import Message, Tool, ToolCall
from appliance.vocab.spec import ChatPrompt

TOOL = Tool(name="rent", description="Rent a boat", parameters={"properties": {"boat": {"type": "string"}}})
CALLS = tuple(ToolCall(id=f"call_{n:024d}", name="rent", arguments='{"boat": "kayak"}') for n in (1, 2))
TALK = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="A kayak and another."),
    Message(role="assistant", content="At once.", reasoning="Two boats.", tool_calls=CALLS),
    Message(role="tool", content="booked", tool_call_id=CALLS[0].id),
    Message(role="tool", content="paid", tool_call_id=CALLS[1].id),
    Message(role="system", content="Be polite."),
    Message(role="user", content="Thanks."),
)
TOOLS = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
TURN = "<{{ m.role }}>{{ m.content }}"
CALL = "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"


def each(turn: str, before: str = TOOLS) -> str:
    return (
        before + "{% for m in messages %}" + turn + "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )


def refusing(when: str, turn: str = TURN + CALL) -> str:
    return each("{% if " + when + " %}{{ raise_exception('no') }}{% endif %}" + turn)


SHAPES = {
    "the usual one": (each(TURN + CALL), Shape()),
    "arguments as text": (
        each(TURN + "{% for c in m.tool_calls or [] %}[{{ c.function.name + c.function.arguments }}]{% endfor %}"),
        Shape(arguments="text"),
    ),
    "arguments printed as they are": (
        each(TURN + "{% for c in m.tool_calls or [] %}[{{ c.function.name }}{{ c.function.arguments }}]{% endfor %}"),
        Shape(arguments="text"),
    ),
    "tools under another name": (
        each(TURN + CALL, "{% for t in xml_tools or [] %}{{ t | tojson }}{% endfor %}"),
        Shape(tools="xml_tools"),
    ),
    "tools as a text": (each(TURN + CALL, "{{ functions }}"), Shape(tools="functions")),
    "tools in the system message": (each(TURN + "{{ m.tools }}" + CALL, ""), Shape(tools="system")),
    "no tools": (each(TURN + CALL, ""), Shape(tools="none")),
    "a list of tools, even an empty one": (
        each(TURN + CALL, "{% for t in tools %}{{ t | tojson }}{% endfor %}"),
        Shape(no_tools=[]),
    ),
    "parameters with descriptions": (
        each(TURN + CALL, "{% for t in tools or [] %}{{ t.function.name }}"
             "{% for k, v in t.function.parameters.properties.items() %}{{ k + v.description }}{% endfor %}"
             "{% endfor %}"),
        Shape(described=True),
    ),
    "ids of nine characters": (
        refusing("m.tool_calls and m.tool_calls[0].id | length != 9"),
        Shape(ids="nine"),
    ),
    "ids that name the function": (
        each(TURN + "{% for c in m.tool_calls or [] %}[{{ c.id }}{{ c.function.arguments | tojson }}]{% endfor %}"),
        Shape(ids="functions"),
    ),
    "nothing instead of an empty text": (
        each("{% if m.content is none or not m.tool_calls %}" + TURN + CALL + "{% endif %}"),
        Shape(empty=None, beside=False),
    ),
    "no calls": (each(TURN), Shape(calls=False, parallel=False)),
    "no results": (each("{% if m.role != 'tool' %}" + TURN + CALL + "{% endif %}"), Shape(results=False)),
    "one call at a time": (refusing("m.tool_calls and m.tool_calls | length > 1"), Shape(parallel=False)),
    "no system text": (
        each("{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}" + TURN + CALL),
        Shape(system=False, late=False),
    ),
    "system text first": (refusing("m.role == 'system' and not loop.first"), Shape(late=False)),
    "the last system text only": (
        each(
            "{% if m.role != 'system' %}" + TURN + CALL + "{% endif %}",
            TOOLS + "{% set n = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}"
            "{% set n.s = m.content %}{% endif %}{% endfor %}{{ n.s }}",
        ),
        Shape(late=False),
    ),
    "turns that alternate": (
        refusing("not loop.first and m.role == 'user' and messages[loop.index0 - 1].role == 'user'"),
        Shape(turns=False),
    ),
    "nothing beside calls": (refusing("m.tool_calls and m.content and m.thinking"), Shape(beside=False)),
}  # fmt: skip


def renderer(source: str) -> Renderer:
    return Renderer(source, {"bos_token": "<s>"}, lambda: datetime(2026, 11, 29))


def prompt(*messages: Message, **more: object) -> ChatPrompt:
    return ChatPrompt(messages=messages, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("source", "shape"), SHAPES.values(), ids=SHAPES)
def test_the_shape_of_a_template_is_found_out(source: str, shape: Shape) -> None:
    found = renderer(source).shape(compiled(source))
    assert replace(found, heads=()) == shape


@pytest.mark.parametrize(("source", "_"), SHAPES.values(), ids=SHAPES)
def test_every_template_shows_all_that_was_said(source: str, _: Shape) -> None:
    text = renderer(source).text(prompt(*TALK, tools=(TOOL,), tool_dialect="hermes_json"))
    for word in ("rent", "boat", "Be brief.", "At once.", "booked", "paid", "Be polite.", "Thanks."):
        assert word in text
    assert text.count("kayak") == 3
    order = [text.rindex(word) for word in ("At once.", "booked", "Be polite.", "Thanks.")]
    assert order == sorted(order)
    assert text.endswith("<assistant>")


THINK = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}" + TURN
HISTORY = [
    ("Well.", None, "<user>Q<assistant>Well.<assistant>"),
    ("<think>\n\n</think>\n\nWell.", None, "<user>Q<assistant>Well.<assistant>"),
    ("Well.", "", "<user>Q<assistant>Well.<assistant>"),
    ("<think>\nHm.\n</think>\n\nWell.", None, "<user>Q<think>Hm.</think><assistant>Well.<assistant>"),
    ("Well.", "Hm.", "<user>Q<think>Hm.</think><assistant>Well.<assistant>"),
]


@pytest.mark.parametrize(("content", "reasoning", "text"), HISTORY)
def test_an_answer_is_the_same_history_however_a_client_sends_it_back(
    content: str, reasoning: str | None, text: str
) -> None:
    said = Message(role="assistant", content=content, reasoning=reasoning)
    asked = prompt(Message(role="user", content="Q"), said, reasoning_dialect="think_tags")
    assert renderer(each(THINK, "")).text(asked) == text


def test_arguments_stand_in_the_order_of_their_schema() -> None:
    tool = Tool(name="f", parameters={"properties": {"b": {}, "a": {}}})
    texts = {
        renderer(SHAPES["the usual one"][0]).text(
            prompt(
                Message(role="user", content="Q"),
                Message(role="assistant", tool_calls=(ToolCall(id="1", name="f", arguments=arguments),)),
                tools=(tool,),
            )
        )
        for arguments in ('{"a": 1, "b": 2, "c": 3}', '{"b":2,"c":3,"a":1}', '{"b": 2,\n "a": 1, "c": 3}')
    }
    assert len(texts) == 1
    assert '[f {"b": 2, "a": 1, "c": 3}]' in texts.pop()


@pytest.mark.parametrize("content", ["Well", "Well, ", "<think>so"])
def test_an_answer_is_continued_where_it_ended(content: str) -> None:
    talk = (Message(role="user", content="Q"), Message(role="assistant", content=content))
    text = renderer(each(TURN + "<end>")).text(prompt(*talk, continue_final=True, reasoning_dialect="think_tags"))
    assert text == f"<user>Q<end><assistant>{content}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% if %}", "cannot be read"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% set n = namespace(_x=1) %}", "underscore"),
        ("{{ dict.mro() }}", "mro"),
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
    ],
)
def test_a_template_runs_in_a_sandbox_and_its_errors_are_its_own(source: str, words: str) -> None:
    with pytest.raises(TemplateFailed, match=words):
        renderer(source).text(prompt(Message(role="user", content="Q")))


def test_a_template_finds_what_public_ones_expect() -> None:
    source = (
        "{{ bos_token }}{% generation %}{{ {'a': '<é>'} | tojson }}{% endgeneration %}{{ strftime_now('%Y') }}"
        "{% for i in range(9) %}{% if i > 1 %}{% break %}{% endif %}{{ i }}{% endfor %}"
        "{{ mood }}{{ messages[0].content }}"
    )
    asked = prompt(Message(role="user", content="Q"), kwargs={"mood": "calm"})
    assert renderer(source).text(asked) == '<s>{"a": "<é>"}202601calmQ'


@pytest.mark.parametrize(
    ("named", "tools", "text"),
    [
        ({"default": "d", "tool_use": "t", "rag": "r"}, (TOOL,), "t"),
        ({"default": "d", "tool_use": "t", "rag": "r"}, (), "d"),
        ({"default": "d"}, (TOOL,), "d"),
    ],
    ids=["with tools", "without tools", "none for tools"],
)
def test_of_several_templates_the_one_for_tools_is_used_where_there_are_some(
    named: dict[str, str], tools: tuple[Tool, ...], text: str
) -> None:
    renderer = Renderer(named, {}, datetime.now)
    template = renderer.template(ChatPrompt(messages=TALK, tools=tools))
    assert template is compiled(text)


def test_several_templates_without_a_default_are_said() -> None:
    with pytest.raises(TemplateFailed, match="no chat template"):
        Renderer({"rag": "r"}, {}, datetime.now).template(ChatPrompt(messages=TALK))
