"""One uniform number per (seed, position): who shares the batch, and how often it was restarted, does not matter."""

_MASK = (1 << 64) - 1


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 23 random bits, which float32 holds exactly and never rounds up to 1.

    SplitMix64 (Steele, Lea, Flood 2014) of the seed's hash, advanced to the position.
    """
    state = (_mix(seed & _MASK) + (position + 1) * 0x9E3779B97F4A7C15) & _MASK
    return (_mix(state) >> 41) / (1 << 23)


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
