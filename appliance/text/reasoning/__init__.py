"""Which reasoning formats exist: one file each, one row each."""

from appliance.text.reasoning import (
    apertus,
    command,
    deepseek_r1,
    ernie,
    gemma4_channel,
    granite,
    harmony,
    hunyuan,
    kimi_k3,
    mistral_think,
    none,
    seed_think,
    think_tags,
)
from appliance.text.reasoning.format import Reasoning

DIALECTS: tuple[Reasoning, ...] = (
    none.REASONING,
    think_tags.REASONING,
    deepseek_r1.REASONING,
    ernie.REASONING,
    gemma4_channel.REASONING,
    harmony.REASONING,
    mistral_think.REASONING,
    seed_think.REASONING,
    granite.REASONING,
    command.REASONING,
    hunyuan.REASONING,
    kimi_k3.REASONING,
    apertus.REASONING,
)


def find(name: str) -> Reasoning | None:
    """The row of a canonical name or an alias."""
    return next((row for row in DIALECTS if name == row.name or name in row.aliases), None)
