"""What sampling must know of a sequence."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.vocab.request import Sampling


@dataclass(eq=False, slots=True)
class SampleRow:
    """`known` are the tokens it was opened with; `answered` counts those it said, also ones still on the device."""

    sampling: Sampling
    known: Sequence[int]
    prompt_length: int
    stop_ids: frozenset[int]
    answered: int = 0
