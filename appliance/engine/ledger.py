"""What rows are charged: the room they take when they decode together. PURE."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from appliance.vocab.spec import KvForm

LEAST_GROWTH, MOST_GROWTH = 32, 1024


def growth(length: int) -> int:
    """Tokens by which caches of this length grow at a time: an eighth, within bounds."""
    return min(max(length // 8, LEAST_GROWTH), MOST_GROWTH)


def tokens_of(lengths: Sequence[int], *, padded: bool) -> int:
    """Tokens of room for rows of these lengths; `padded`: for a rectangle of the longest and what it grows by."""
    if not lengths or not padded:
        return sum(lengths)
    longest = max(lengths)
    return len(lengths) * (longest + growth(longest))


@dataclass(frozen=True, slots=True)
class Form:
    """How rows are held: up to `exact_tokens` a token takes as much as `exact_cost` tokens of the final form."""

    exact_tokens: int = 0
    exact_cost: float = 1.0

    def charge(self, tokens: int) -> int:
        """A row of so many, in tokens of the final form."""
        return ceil(tokens * self.exact_cost) if tokens <= self.exact_tokens else tokens


def form_of(kv: KvForm | None, value_bits: int) -> Form:
    """`value_bits`: of a number of the model's own type. In fewer bits a group of them shares a scale and a bias of
    that type (`mlx.core.quantize`).
    """
    if kv is None:
        return Form()
    return Form(kv.from_token, value_bits / (kv.bits + 2 * value_bits / kv.group))
