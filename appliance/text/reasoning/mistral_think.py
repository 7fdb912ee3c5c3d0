"""`[THINK]…[/THINK]`, as Magistral and Ministral write it."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="mistral_think",
    aliases=("mistral", "magistral", "ministral"),
    open=("[THINK]",),
    close=("[/THINK]",),
    again=True,
)
