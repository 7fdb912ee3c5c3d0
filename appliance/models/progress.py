"""What a fetch reports while it works."""

from collections.abc import Callable

Report = Callable[[str, int, int], None]
"""Called with a phase (`download`, `convert`, …), the bytes or steps done, and all of them (0: unknown)."""


def silent(phase: str, done: int, total: int) -> None:
    """Report nothing."""
