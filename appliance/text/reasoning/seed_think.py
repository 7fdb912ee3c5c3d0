"""`<seed:think>…</seed:think>`, as Seed-OSS writes it."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="seed_think", aliases=("seed", "seed_oss"), open=("<seed:think>",), close=("</seed:think>",)
)
