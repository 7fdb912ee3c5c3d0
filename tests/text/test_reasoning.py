"""Where each format's reasoning begins and ends; every row again with the text split at every character."""

import pytest

from tests.text.folding import channels, every_way

CASES = [
    # format, prompt's end, text, reasoning, content
    ("think_tags", "", "<think>\nwhy\n</think>\n\nyes", "why", "yes"),
    ("think_tags", "<think>\n", "why\n</think>\n\nyes", "why", "yes"),
    ("think_tags", "<think>", "<think>why</think>yes", "why", "yes"),
    ("think_tags", "assistant\n", "yes <think> no", "", "yes <think> no"),
    ("think_tags", "<think>\n\n</think>\n\n", "yes, `<think>` is a tag", "", "yes, `<think>` is a tag"),
    ("think_tags", "<think>\n\n</think>\n\n", "<think>why</think>", "", "<think>why</think>"),
    ("think_tags", "", "<think>why", "why", ""),
    ("think_tags", "", "<think></think>yes </think>", "", "yes </think>"),
    ("deepseek_r1", "", "why\n</think>\n\nyes", "why", "yes"),
    ("deepseek_r1", "<think>\n", "why</think>yes", "why", "yes"),
    ("deepseek_r1", "</think>", "yes </think>", "", "yes </think>"),
    ("deepseek_r1", "", "<think>why</think>yes", "why", "yes"),
    ("deepseek_r1", "", "why", "why", ""),
    ("ernie", "<think>\n", "why\n</think>\n\n<response>\nyes\n</response>\n", "why", "yes"),
    ("think", "<think>\n", "why\n</think>\n\n<response>\nyes\n</response>\n", "why", "yes"),
    ("think_tags", "", "<think>why</think><response>yes</response>", "why", "<response>yes</response>"),
    ("ernie", "", "<think>why</think>a <response> is a tag</response>", "why", "a <response> is a tag</response>"),
    ("gemma4_channel", "", "<|channel>thought\nwhy\n<channel|>yes", "why", "yes"),
    ("gemma4_channel", "<|channel>thought\n<channel|>", "yes", "", "yes"),
    ("gemma4_channel", "<|channel>thought\n", "why<channel|>yes", "why", "yes"),
    ("gemma4_channel", "", "a<|channel>thought\nwhy<channel|>yes", "why", "ayes"),
    ("harmony", "<|start|>assistant", "<|channel|>analysis<|message|>why<|end|><|start|>assistant"
     "<|channel|>final<|message|>yes<|return|>", "why", "yes"),
    ("harmony", "<|start|>assistant", "<|channel|>analysis<|message|>why", "why", ""),
    ("harmony", "<|start|>assistant", "<|channel|>commentary<|message|>so<|end|>", "", "so"),
    ("harmony", "<|start|>assistant", "<|channel|>analysis to=browser.open code<|message|>{}<|call|>", "{}", ""),
    ("harmony", "<|start|>assistant", "no frame at all", "", "no frame at all"),
    ("harmony", "", "<|channel|>final <|constrain|>json<|message|>{}", "", "{}"),
    ("mistral_think", "", "[THINK]why[/THINK]yes", "why", "yes"),
    ("mistral_think", "", "so [THINK]why[/THINK]yes", "why", "soyes"),
    ("seed_think", "", "<seed:think>why</seed:think>yes", "why", "yes"),
    ("granite", "", "<think>why</think><response>yes</response>", "why", "yes"),
    ("granite", "", "Here is my thought process: why\n\nHere is my response: yes", "why", "yes"),
    ("granite", "", "yes, </response> too", "", "yes, </response> too"),
    ("command", "", "<|START_THINKING|>why<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", "why", "yes"),
    ("command", "", "<|START_TEXT|>yes<|END_TEXT|>", "", "yes"),
    ("command", "<|START_THINKING|>", "why<|END_THINKING|>yes", "why", "yes"),
    ("command", "", "<|START_RESPONSE|>`<|END_RESPONSE|>` ends<|END_RESPONSE|>", "", "`<|END_RESPONSE|>` ends"),
    ("kimi_k3", "<|open|>think<|sep|>", "why<|close|>think<|sep|><|open|>response<|sep|>yes<|close|>response<|sep|>"
     "<|close|>message<|sep|>", "why", "yes"),
    ("apertus", "", "<|inner_prefix|>why<|inner_suffix|>yes", "why", "yes"),
    ("hunyuan", "", "<think>\nwhy\n</think>\n<answer>\nyes\n</answer>", "why", "yes"),
    ("none", "<think>", "why</think>yes", "", "why</think>yes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "prompt", "text", "why", "content"), CASES, ids=[f"{n} {p!r} {t!r}"[:60] for n, p, t, _, _ in CASES]
)
def test_reasoning_is_told_from_the_answer(name, prompt, text, why, content):
    folded = every_way(text, lambda: channels("none", name, prompt=prompt))
    assert (folded.reasoning.strip(), folded.content.strip()) == (why, content)


def test_an_answer_may_continue_inside_the_reasoning():
    folded = every_way("and so</think>yes", lambda: channels("none", "think_tags", prompt="because", inside=True))
    assert (folded.reasoning, folded.content) == ("and so", "yes")
