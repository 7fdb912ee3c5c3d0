"""`<think>…</think>` and an answer in `<response>…</response>`, as ERNIE 4.5 writes it."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="ernie",
    aliases=("ernie45",),
    open=("<think>",),
    close=("</think>",),
    wraps=(("<response>", "</response>"),),
)
