"""`<|inner_prefix|>…<|inner_suffix|>`, as Apertus writes it."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(name="apertus", open=("<|inner_prefix|>",), close=("<|inner_suffix|>",), again=True)
