"""`<|channel>thought…<channel|>`, as Gemma 4 writes it."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="gemma4_channel", aliases=("gemma4",), open=("<|channel>thought",), close=("<channel|>",), again=True
)
