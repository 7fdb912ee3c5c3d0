"""Templates against dialects: what reads back, and what is said where it does not."""

from datetime import datetime

import pytest

from appliance.text.probe import probe
from appliance.text.rendering import Renderer

_EACH = (
    "{{% for t in tools or [] %}}{{{{ t | tojson }}}}{{% endfor %}}"
    "{{% for m in messages %}}<|{{{{ m.role }}}}|>\n{turn}<|end|>{{% endfor %}}"
    "{{% if add_generation_prompt %}}<|assistant|>\n{begin}{{% endif %}}"
)
HERMES = (
    "{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
)
CODER = (
    "{% for c in m.tool_calls or [] %}<tool_call>\n<function={{ c.function.name }}>\n"
    "{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}"
    "</function>\n</tool_call>{% endfor %}"
)
THINK = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
SEED = "{% if m.reasoning_content %}<seed:think>{{ m.reasoning_content }}</seed:think>{% endif %}"


def template(calls: str, thoughts: str = "", begin: str = "") -> str:
    return _EACH.format(turn=thoughts + "{{ m.content }}" + calls, begin=begin)


def found(source: str, tools: str, thinking: str) -> list[str]:
    renderer = Renderer(source, {}, lambda: datetime(2026, 11, 29))
    return [mismatch.message for mismatch in probe(renderer, tools, thinking, {})]


@pytest.mark.parametrize(
    ("source", "tools", "thinking"),
    [
        (template(HERMES), "hermes_json", "none"),
        (template(CODER), "qwen3_coder", "none"),
        (template(HERMES, THINK), "hermes_json", "think_tags"),
        (template(HERMES, SEED), "hermes_json", "seed_think"),
        (template(HERMES, "", "<think>\n"), "hermes_json", "think_tags"),
        (template(HERMES, THINK, "<think>\n"), "hermes_json", "deepseek_r1"),
        (template(""), "hermes_json", "none"),
        (template(""), "none", "think_tags"),
        (template(HERMES), "none", "none"),
    ],
)
def test_what_the_template_writes_reads_back(source: str, tools: str, thinking: str) -> None:
    assert found(source, tools, thinking) == []


@pytest.mark.parametrize(
    ("source", "tools", "thinking", "words"),
    [
        (template(HERMES), "qwen3_coder", "none", ["qwen3_coder does not read", "hermes_json", "<tool_call>"]),
        (template(CODER), "hermes_json", "none", ["hermes_json does not read", "qwen3_coder", "<function="]),
        (template(HERMES, THINK), "hermes_json", "none", ["none does not read", "think_tags", "<think>"]),
        (template(HERMES, SEED), "hermes_json", "think_tags", ["think_tags does not read", "seed_think would"]),
        (template(HERMES, "", "<think>\n"), "hermes_json", "none", ["none does not read", "think_tags"]),
        (template(HERMES, "", "[THINK]"), "hermes_json", "think_tags", ["think_tags does not", "mistral_think"]),
        (template(""), "phantom", "none", ["no tool dialect 'phantom'"]),
        (template(""), "none", "phantom", ["no reasoning dialect 'phantom'"]),
        ("constant", "hermes_json", "none", ["does not show what users say"]),
        ("{{ nobody.home }}", "hermes_json", "none", ["renders no conversation", "nobody"]),
    ],
)
def test_a_mismatch_names_the_dialect_and_what_the_template_writes(
    source: str, tools: str, thinking: str, words: list[str]
) -> None:
    (message,) = found(source, tools, thinking)
    assert all(word in message for word in words)
