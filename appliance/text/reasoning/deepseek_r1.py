"""Reasoning that the answer begins with, whoever wrote `<think>`, up to `</think>`; none where the prompt closed it.

DeepSeek-R1 and its distills, QwQ, Step and MiniMax M2 write no opening tag.
"""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="deepseek_r1",
    aliases=("deepseek", "qwq", "step", "step3", "minimax", "minimax_m2"),
    open=("<think>",),
    close=("</think>",),
    implied=True,
)
