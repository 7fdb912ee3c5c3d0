"""The think frame of Kimi K3, which its prompt opens."""

from appliance.text.dialects.kimi_k3 import FORMAT
from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="kimi_k3",
    open=("<|open|>think<|sep|>",),
    close=("<|close|>think<|sep|>",),
    frames=FORMAT,
    answer=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    last="<|close|>message<|sep|>",
)
