"""The analysis channel of gpt-oss; the frames say which text is in it."""

from appliance.text.dialects.harmony import FORMAT
from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="harmony",
    aliases=("gpt_oss", "openai_gptoss"),
    frames=FORMAT,
    thoughts=("<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"),
    thought_end="<|end|><|start|>assistant",
    answer=("<|channel|>final<|message|>", ""),
)
