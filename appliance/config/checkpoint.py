"""What a model's own files say that matters to configuration."""

from dataclasses import dataclass

from appliance.config.attention import Attention
from appliance.vocab.request import SamplingPatch


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`template` is the chat template, `generation` the sampling of generation_config.json, `context` in tokens.

    None where the files do not say. `repo` is `owner/name` where the files come from a hub; `weight_bytes` on disk.
    """

    model_type: str
    architectures: tuple[str, ...]
    template: str | None
    generation: SamplingPatch
    context: int | None
    repo: str | None
    weight_bytes: int
    attention: Attention = Attention()
