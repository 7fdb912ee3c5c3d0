"""`<|START_THINKING|>…<|END_THINKING|>` and an answer in `<|START_RESPONSE|>…<|END_RESPONSE|>`, as Command does."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="command",
    aliases=("command_r7b", "command_a", "cohere"),
    open=("<|START_THINKING|>",),
    close=("<|END_THINKING|>",),
    again=True,
    wraps=(("<|START_RESPONSE|>", "<|END_RESPONSE|>"), ("<|START_TEXT|>", "<|END_TEXT|>")),
)
