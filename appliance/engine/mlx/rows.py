"""What sampling must know of a sequence."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.engine.constraint import Matcher
from appliance.engine.rules import NO_RULES, Rules
from appliance.vocab.request import Sampling


@dataclass(eq=False, slots=True)
class SampleRow:
    """`known` are the tokens it was opened with; `answered` counts those it said, but for the newest
    while that may still be drawn again. `matcher` keeps it inside its grammar.
    """

    sampling: Sampling
    known: Sequence[int]
    prompt_length: int
    stop_ids: frozenset[int]
    answered: int = 0
    matcher: Matcher | None = None
    rules: Rules = NO_RULES
