"""What rows are charged: the room they take when they decode together. PURE."""

from collections.abc import Sequence

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
