"""One uniform number per seed, position and attempt, whoever shares the batch and however often it was restarted."""

_MASK = (1 << 64) - 1


def uniform(seed: int, position: int, attempt: int = 0) -> float:
    """A number in [0, 1) with 23 random bits, which float32 holds exactly and never rounds up to 1.

    SplitMix64 (Steele, Lea, Flood 2014) of the seed's hash, advanced to the position; each attempt hashes the seed
    once more.
    """
    hashed = _mix(seed & _MASK)
    for _ in range(attempt):
        hashed = _mix((hashed + 0x9E3779B97F4A7C15) & _MASK)
    state = (hashed + (position + 1) * 0x9E3779B97F4A7C15) & _MASK
    return (_mix(state) >> 41) / (1 << 23)


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
