"""`<think>…</think>` before the answer, as Qwen3, GLM, Kimi and many others write it.

The opening tag may stand at the end of the prompt instead: then the answer begins inside the reasoning.
"""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="think_tags",
    aliases=("qwen3", "glm", "glm45", "kimi", "nemotron", "hermes", "exaone", "smollm3", "kimi_k2", "olmo3"),
    open=("<think>",),
    close=("</think>",),
)
