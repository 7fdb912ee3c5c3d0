"""No reasoning: all text is the answer."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(name="none", aliases=("", "off"))
