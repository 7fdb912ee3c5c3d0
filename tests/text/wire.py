"""How each format writes calls: the other direction of what the readers read, to write test answers with."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Calls = list[tuple[str, dict[str, Any]]]


def as_is(text: str) -> str:
    return text


@dataclass(frozen=True)
class Wire:
    """`calls` writes several calls, `say` text before them, `end` what cuts a call short of being whole.

    `prompt` is how the prompt ends. With `bare` nothing but its shape says that text is a call: it must begin a line.
    """

    calls: Callable[[Calls], str]
    say: Callable[[str], str] = as_is
    after: bool = True
    prompt: str = ""
    bare: bool = False
    fenced: bool = False
    broken: Callable[[str], str] = lambda text: text.replace('"rowboat"', '"row" "boat"')
    thinks: str = "think_tags"


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def each(one: Callable[[str, dict[str, Any]], str], glue: str = "\n", around: str = "{}") -> Callable[[Calls], str]:
    return lambda calls: around.format(glue.join(one(name, arguments) for name, arguments in calls))


def objects(arguments: str = "arguments", name: str = "name") -> Callable[[str, dict[str, Any]], str]:
    return lambda tool, values: dumps({name: tool, arguments: values})


def listed(around: str) -> Callable[[Calls], str]:
    return each(objects(), ", ", around)


def bare_text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def tagged(call: str, parameter: str, glue: str = "\n") -> Callable[[str, dict[str, Any]], str]:
    """`call` has the fields name and parameters, `parameter` key, value and is_text."""

    def one(name: str, arguments: dict[str, Any]) -> str:
        rows = [
            parameter.format(key=key, value=bare_text(value), is_text=dumps(isinstance(value, str)))
            for key, value in arguments.items()
        ]
        return call.format(name=name, parameters=glue.join(rows) + (glue if rows else ""))

    return one


def python(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def gemma(value: Any) -> str:
    match value:
        case str():
            return f'<|"|>{value}<|"|>'
        case dict():
            return "{" + ",".join(f"{key}:{gemma(value[key])}" for key in sorted(value)) + "}"
        case list():
            return "[" + ",".join(map(gemma, value)) + "]"
        case _:
            return dumps(value)


def harmony(name: str, arguments: dict[str, Any]) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{dumps(arguments)}<|call|>"


def kimi(calls: Calls) -> str:
    inner = "".join(
        f"<|tool_call_begin|>functions.{name}:{at}<|tool_call_argument_begin|>{dumps(arguments)}<|tool_call_end|>"
        for at, (name, arguments) in enumerate(calls, 3)
    )
    return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"


TYPES = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def kimi_k3(name: str, arguments: dict[str, Any]) -> str:
    rows = "".join(
        f'<|open|>argument key="{key}" type="{TYPES[type(value)]}"<|sep|>{bare_text(value)}<|close|>argument<|sep|>'
        for key, value in arguments.items()
    )
    return f'<|open|>call tool="{name}" index="1"<|sep|>{rows}<|close|>call<|sep|>'


def nameless(tag: str) -> Callable[[str], str]:
    """Breaks a call by taking its name away."""
    return lambda text: text.replace(f"{tag}rent", tag)


HERMES = Wire(each(lambda name, values: f"<tool_call>\n{objects()(name, values)}\n</tool_call>"))
DEEPSEEK = "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>"
DSML = tagged(
    '<｜DSML｜invoke name="{name}">\n{parameters}</｜DSML｜invoke>',
    '<｜DSML｜parameter name="{key}" string="{is_text}">{value}</｜DSML｜parameter>',
)
CODER = tagged("<function={name}>\n{parameters}</function>", "<parameter={key}>\n{value}\n</parameter>")
INLINE = tagged("<function={name}>\n{parameters}</function>", "<parameter={key}>{value}</parameter>")

WIRES: dict[str, Wire] = {
    "hermes_json": HERMES,
    "qwen3_coder": Wire(
        each(lambda name, values: f"<tool_call>\n{CODER(name, values)}\n</tool_call>"), broken=nameless("<function=")
    ),
    "llama3_json": Wire(each(objects("parameters"), "; "), bare=True, after=False),
    "llama4_pythonic": Wire(
        each(python, ", ", "[{}]"), bare=True, broken=lambda text: text.replace("'rowboat'", "'row' boat")
    ),
    "mistral_json": Wire(listed("[TOOL_CALLS][{}]"), thinks="mistral_think"),
    "mistral_call_id": Wire(each(lambda name, v: f"[TOOL_CALLS]{name}[CALL_ID]a1B2c3D4e[ARGS]{dumps(v)}", "")),
    "mistral_args": Wire(each(lambda name, v: f"[TOOL_CALLS]{name}[ARGS]{dumps(v)}", ""), thinks="mistral_think"),
    "deepseek_v3": Wire(
        each(
            lambda name, values: (
                f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{dumps(values)}\n```<｜tool▁call▁end｜>"
            ),
            around=DEEPSEEK,
        ),
        thinks="deepseek_r1",
    ),
    "deepseek_v31": Wire(
        each(lambda name, v: f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{dumps(v)}<｜tool▁call▁end｜>", "", DEEPSEEK),
        thinks="deepseek_r1",
    ),
    "deepseek_dsml": Wire(
        each(DSML, around="<｜DSML｜function_calls>\n{}\n</｜DSML｜function_calls>"), broken=nameless('invoke name="')
    ),
    "deepseek_dsml_v4": Wire(
        each(DSML, around="<｜DSML｜tool_calls>\n{}\n</｜DSML｜tool_calls>"), broken=nameless('invoke name="')
    ),
    "glm45": Wire(
        each(
            tagged(
                "<tool_call>{name}\n{parameters}</tool_call>",
                "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>",
            )
        ),
        broken=nameless("<tool_call>"),
    ),
    "glm47": Wire(
        each(
            tagged(
                "<tool_call>{name}{parameters}</tool_call>",
                "<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
                glue="",
            ),
            "",
        ),
        broken=nameless("<tool_call>"),
    ),
    "granite": Wire(listed("<|tool_call|>[{}]"), thinks="granite"),
    "harmony": Wire(
        each(harmony, "<|start|>assistant"),
        say=lambda text: f"<|channel|>commentary<|message|>{text}<|end|><|start|>assistant" if text else "",
        after=False,
        prompt="<|start|>assistant",
        thinks="harmony",
    ),
    "kimi_k2": Wire(kimi),
    "minimax_m2": Wire(
        each(
            tagged('<invoke name="{name}">\n{parameters}</invoke>', '<parameter name="{key}">{value}</parameter>'),
            around="<minimax:tool_call>\n{}\n</minimax:tool_call>",
        ),
        broken=nameless('invoke name="'),
        thinks="deepseek_r1",
    ),
    "gemma4": Wire(
        each(lambda name, values: f"<|tool_call>call:{name}{gemma(values)}<tool_call|>", ""),
        broken=nameless("call:"),
        thinks="gemma4_channel",
    ),
    "functionary_v31": Wire(each(lambda name, v: f"<function={name}>{dumps(v)}</function>", "")),
    "functionary_v32": Wire(
        each(lambda name, v: f"{name}\n{dumps(v)}", ">>>"),
        say=lambda text: f"all\n{text}>>>" if text else "",
        after=False,
        prompt=">>>",
    ),
    "xlam": Wire(listed("[{}]"), bare=True, fenced=True),
    "seed_oss": Wire(
        each(lambda name, values: f"<seed:tool_call>\n{INLINE(name, values)}\n</seed:tool_call>"),
        broken=nameless("<function="),
        thinks="seed_think",
    ),
    "nemotron": Wire(listed("<TOOLCALL>[{}]</TOOLCALL>")),
    "lfm2_pythonic": Wire(
        each(python, ", ", "<|tool_call_start|>[{}]<|tool_call_end|>"),
        broken=lambda text: text.replace("'rowboat'", "'row' boat"),
    ),
    "olmo3_pythonic": Wire(
        each(python, around="<function_calls>\n{}\n</function_calls>"),
        broken=lambda text: text.replace("'rowboat'", "'row' boat"),
    ),
    "command": Wire(
        each(objects("parameters", "tool_name"), ",\n    ", "<|START_ACTION|>[\n    {}\n]<|END_ACTION|>"),
        thinks="command",
    ),
    "command_r": Wire(
        each(objects("parameters", "tool_name"), ",\n    ", "Action:\n```json\n[\n    {}\n]\n```"), bare=True
    ),
    "phi4_mini": Wire(listed("functools[{}]")),
    "minicpm": Wire(
        each(
            tagged('<function name="{name}">{parameters}</function>', '<param name="{key}">{value}</param>', ""), ""
        ),
        broken=nameless('<function name="'),
    ),
    "step": Wire(
        each(
            tagged(
                '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{parameters}'
                "</steptml:invoke><｜tool_call_end｜>",
                '<steptml:parameter name="{key}">{value}</steptml:parameter>',
                "",
            ),
            "",
            "<｜tool_calls_begin｜>{}<｜tool_calls_end｜>",
        ),
        broken=nameless('invoke name="'),
        thinks="deepseek_r1",
    ),
    "hunyuan": Wire(listed("<tool_calls>[{}]</tool_calls>")),
    "kimi_k3": Wire(
        each(kimi_k3, "", "<|open|>tools<|sep|>{}<|close|>tools<|sep|>"),
        say=lambda text: f"<|open|>response<|sep|>{text}<|close|>response<|sep|>" if text else "",
        after=False,
        prompt="<|open|>response<|sep|><|close|>response<|sep|>",
        broken=nameless('call tool="'),
        thinks="kimi_k3",
    ),
    "apertus": Wire(
        each(lambda name, values: dumps({name: values}), ", ", "<|tools_prefix|>[{}]<|tools_suffix|>"),
        thinks="apertus",
    ),
    "json": Wire(each(objects()), bare=True, fenced=True),
}
