"""How many tokens a family makes of what was estimated from bytes, learned from prompts it has read. PURE."""

SMALLEST = 32
"""Estimated tokens; what a template adds would count too much in shorter prompts."""
WEIGHT = 0.1
"""Of the latest prompt: some ten of them decide."""
BOUNDS = (0.25, 4.0)
"""Whatever is outside is a prompt of its own kind, and says little of others."""


def learned(scale: float | None, estimated: int, actual: int) -> float | None:
    """The scale after one more prompt; None while nothing is known."""
    if estimated < SMALLEST or actual <= 0:
        return scale
    low, high = BOUNDS
    found = min(max(actual / estimated, low), high)
    return found if scale is None else scale + WEIGHT * (found - scale)
