"""`<think>…</think>` and an answer in `<answer>…</answer>`, as Hunyuan writes it."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="hunyuan",
    aliases=("hunyuan_a13b",),
    open=("<think>",),
    close=("</think>",),
    wraps=(("<answer>", "</answer>"),),
)
