"""Small chat templates in the manner of families, in words of our own: turns, tools, calls and thoughts are put where
those families put them. They stand for families whose own templates a directory of well-known ones may lack.
"""

from typing import NamedTuple


class Own(NamedTuple):
    """`model_type` is what such a checkpoint says of itself, where its family is recognised by that too."""

    source: str
    model_type: str = ""


def turns(
    user: str, assistant: str, tool: str, *, system: str = "", tools: str = "", begin: str, before: str = ""
) -> str:
    """A template from what it makes of `m`, the message of a role; of `tools`; and of an answer that begins."""
    listed = f"{{% if tools %}}{tools}{{% endif %}}"
    by_role = {"system": system or user, "user": user, "assistant": assistant, "tool": tool}
    branches = "".join(
        f"{{% {'elif' if at else 'if'} m.role == '{role}' %}}{text}"
        for at, (role, text) in enumerate(by_role.items())
    )
    return (
        f"{before}{listed}{{% for m in messages %}}{branches}{{% endif %}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{begin}{{% endif %}}"
    )


ARGUMENTS = "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}"
LISTED = "{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
THOUGHT = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
THINKS = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"


def calls(each: str, before: str = "", after: str = "", between: str = "") -> str:
    """The calls of an assistant's turn, in which `c` is one."""
    glue = f"{{% if not loop.last %}}{between}{{% endif %}}" if between else ""
    return (
        f"{{% if m.tool_calls %}}{before}{{% for c in m.tool_calls %}}{each}{glue}{{% endfor %}}{after}{{% endif %}}"
    )


HERMES = calls('\n<tool_call>\n{"name": "{{ c.function.name }}", "arguments": ' + ARGUMENTS + "}\n</tool_call>")
XML = calls(
    "\n<tool_call>\n<function={{ c.function.name }}>\n{% for key, value in c.function.arguments.items() %}"
    "<parameter={{ key }}>\n{{ value if value is string else value | tojson }}\n</parameter>\n{% endfor %}"
    "</function>\n</tool_call>"
)
OBJECTS = calls('{"name": "{{ c.function.name }}", "arguments": ' + ARGUMENTS + "}", between="\n")


def chatml(
    call: str, *, thought: str = "", begin: str = "", tools: str = LISTED, before: str = "", sep: str = "\n"
) -> str:
    """Turns between `<|im_start|>` and `<|im_end|>`."""
    head, end = "<|im_start|>", "<|im_end|>\n"
    return turns(
        user=f"{head}{{{{ m.role }}}}{sep}{{{{ m.content }}}}{end}",
        assistant=f"{head}assistant{sep}{thought}{{{{ m.content }}}}{call}{end}",
        tool=f"{head}user{sep}<tool_response>\n{{{{ m.content }}}}\n</tool_response>{end}",
        tools=f"{head}system{sep}<tools>\n{tools}</tools>{end}" if tools else "",
        begin=f"{head}assistant{sep}{begin}",
        before=before,
    )


def system(said: str, when: str) -> str:
    """A turn of the template's own."""
    return f"{{% if {when} %}}<|im_start|>system\n{said}<|im_end|>\n{{% endif %}}"


def llama(call: str) -> str:
    """Turns behind headers."""
    head, end = "<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>"
    said = "{{ m.content }}"
    return turns(
        user=f"{head.format('{{ m.role }}')}{said}{end}",
        assistant=f"{head.format('assistant')}{said}{call}{end}",
        tool=f"{head.format('ipython')}{said}{end}",
        tools=f"{head.format('system')}{LISTED}{end}",
        begin=head.format("assistant"),
    )


def gemma() -> str:
    """Two roles; tools are told in words."""
    turn = "<start_of_turn>{}\n{{{{ m.content | trim }}}}<end_of_turn>\n"
    return turns(
        user=turn.format("user"), assistant=turn.format("model"), tool="", begin="<start_of_turn>model\n",
        system="{{ raise_exception('no system turns') }}",
    )  # fmt: skip


def deepseek(call: str, *, begin: str = "", thought: str = "") -> str:
    """Turns behind `<｜User｜>` and `<｜Assistant｜>`."""
    return turns(
        system="{{ m.content }}",
        user="<｜User｜>{{ m.content }}",
        assistant=f"<｜Assistant｜>{thought}{{{{ m.content }}}}{call}<｜end▁of▁sentence｜>",
        tool="<｜tool▁output▁begin｜>{{ m.content }}<｜tool▁output▁end｜>",
        tools=LISTED,
        begin=f"<｜Assistant｜>{begin}",
    )


def mistral(*, thought: str = "", system: str = "[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]") -> str:
    """Turns in brackets; a call is its name and `[ARGS]`."""
    return turns(
        system=system,
        user="[INST]{{ m.content }}[/INST]",
        assistant=thought + "{{ m.content }}" + calls("[TOOL_CALLS]{{ c.function.name }}[ARGS]" + ARGUMENTS) + "</s>",
        tool="[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]",
        tools="[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]",
        begin="",
        before="<s>",
    )


def phi(*, before: str = "", begin: str = "") -> str:
    """Turns behind a tag with the role's name; tools are told in words."""
    turn = "<|{}|>{{{{ m.content }}}}<|end|>\n"
    return turns(
        system=turn.format("system"), user=turn.format("user"), assistant=turn.format("assistant"), tool="",
        begin=f"<|assistant|>{begin}", before=before,
    )  # fmt: skip


def granite() -> str:
    """Turns behind headers, calls in XML."""
    head, end = "<|start_of_role|>{}<|end_of_role|>", "<|end_of_text|>\n"
    return turns(
        user=f"{head.format('{{ m.role }}')}{{{{ m.content }}}}{end}",
        assistant=f"{head.format('assistant')}{THOUGHT}{{{{ m.content }}}}{XML}{end}",
        tool=f"{head.format('user')}<tool_response>\n{{{{ m.content }}}}\n</tool_response>{end}",
        tools=f"{head.format('system')}{LISTED}{end}",
        begin=f"{head.format('assistant')}{THINKS}",
    )


def named(call: str, *, thought: str = "", begin: str = "", tools: str = LISTED) -> str:
    """`User: ` and `Assistant: ` before what they say."""
    return turns(
        system="{{ m.content }}\n", user="User: {{ m.content }}\n", tool="{{ m.content }}\n", tools=tools,
        assistant=f"Assistant: {thought}{{{{ m.content }}}}{call}</s>\n", begin=f"Assistant: {begin}",
    )  # fmt: skip


_V3 = calls(
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ c.function.name }}\n```json\n"
    + ARGUMENTS
    + "\n```<｜tool▁call▁end｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
)
_DSML = calls(
    '<｜DSML｜invoke name="{{ c.function.name }}">\n{% for key, value in c.function.arguments.items() %}'
    "<｜DSML｜parameter name=\"{{ key }}\" string=\"{{ 'true' if value is string else 'false' }}\">"
    "{{ value if value is string else value | tojson }}</｜DSML｜parameter>\n{% endfor %}</｜DSML｜invoke>\n",
    "<｜DSML｜function_calls>\n",
    "</｜DSML｜function_calls>",
)
_LISTED_CALLS = calls(
    '{"name": "{{ c.function.name }}", "arguments": ' + ARGUMENTS + "}", "<tool_calls>[", "]</tool_calls>", ", "
)
_SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n{% endif %}"

OWN: dict[str, Own] = {
    "deepseek-coder-v2": Own(named("", tools=""), "deepseek_v2"),
    "deepseek-v3": Own(deepseek(_V3)),
    "deepseek-v3.2": Own(deepseek(_DSML, begin="{% if thinking %}<think>{% else %}</think>{% endif %}")),
    "devstral": Own(mistral()),
    "ernie-4.5": Own(
        named(
            HERMES, tools=LISTED, begin=THINKS,
            thought="{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}",
        ).replace("{{ m.content }}" + HERMES, "<response>\n{{ m.content }}\n</response>\n" + HERMES),
        "ernie4_5_moe",
    ),
    "format-hermes": Own(turns(
        user="<|{{ m.role }}|>{{ m.content }}", assistant="<|model|>" + THOUGHT + "{{ m.content }}" + HERMES,
        tool="<|result|>{{ m.content }}", tools=LISTED, begin="<|model|>",
    )),
    "format-qwen-xml": Own(turns(
        user="<|{{ m.role }}|>{{ m.content }}", assistant="<|model|>" + THOUGHT + "{{ m.content }}" + XML,
        tool="<|result|>{{ m.content }}", tools=LISTED, begin="<|model|>",
    )),
    "format-glm": Own(turns(
        user="<|{{ m.role }}|>{{ m.content }}", tool="<|result|>{{ m.content }}", tools=LISTED, begin="<|model|>",
        assistant="<|model|>" + THOUGHT + "{{ m.content }}" + calls(
            "<tool_call>{{ c.function.name }}{% for key, value in c.function.arguments.items() %}<arg_key>{{ key }}"
            "</arg_key><arg_value>{{ value if value is string else value | tojson }}</arg_value>{% endfor %}"
            "</tool_call>"
        ),
    )),
    "functionary-v3.1": Own(llama(calls("<function={{ c.function.name }}>" + ARGUMENTS + "</function>"))),
    "gemma3n": Own(gemma(), "gemma3n"),
    "granite-4.2": Own(granite()),
    "hermes-4": Own(chatml(
        HERMES, thought=THOUGHT, before=system("You are a deep thinking AI.", "thinking"),
    )),
    "hunyuan": Own(turns(
        system="{{ m.content }}<|extra_4|>", user="{{ m.content }}<|extra_0|>", tool="<tool_response>{{ m.content }}",
        assistant=THOUGHT + "<answer>\n{{ m.content }}\n</answer>" + _LISTED_CALLS + "<|eos|>",
        tools=LISTED, begin=_SWITCH, before="<|startoftext|>",
    ), "hunyuan_v1_moe"),
    "mistral-small-4": Own(
        mistral(thought="{% if m.reasoning_content %}[THINK]{{ m.reasoning_content }}[/THINK]{% endif %}"), "mistral4"
    ),
    "phi3": Own(phi()),
    "phi4": Own(chatml("", tools="", sep="<|im_sep|>")),
    "phi4-mini-reasoning": Own(phi(
        before="<|system|>Your name is Phi, an AI math expert developed by Microsoft.<|end|>"
    )),
    "phi4-reasoning": Own(chatml(
        "", tools="", sep="<|im_sep|>",
        before="<|im_start|>system<|im_sep|>Think first: <think> {Thought} </think> {Answer}.<|im_end|>",
    )),
    "qwen3-coder-next": Own(chatml(XML, before="{# <IMPORTANT> #}"), "qwen3_next"),
    "qwen3-thinking-2507": Own(chatml(HERMES, thought=THOUGHT, begin="<think>\n")),
    "qwen3-vl": Own(chatml(HERMES, thought=THOUGHT), "qwen3_vl"),
    "qwen3.6": Own(chatml(
        XML, thought=THOUGHT, before="{# preserve_thinking <|vision_start|> #}",
        begin=THINKS.replace("{% endif %}", "{% else %}<think>\n{% endif %}"),
    )),
    "smollm2": Own(chatml(
        "", tools="",
        before=system("You are an assistant named SmolLM", "messages[0].role != 'system'"),
    )),
    "xlam": Own(llama(calls(
        '{"name": "{{ c.function.name }}", "arguments": ' + ARGUMENTS + "}", "[", "]", ", "
    )).replace("{% if tools %}", "{% if tools %}You are developed by the Salesforce xLAM team.\n")),
}  # fmt: skip
