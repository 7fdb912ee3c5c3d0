"""Where the latest requests went and why, for whoever runs the server."""

from dataclasses import dataclass, field

KEPT = 200
"""How many are remembered."""


@dataclass(slots=True)
class Decision:
    """One request's. `asked` is the name it asked for, `served_by` the model that was tried last; `time` is Unix
    seconds. Nothing of what was asked or answered is in it.
    """

    id: str
    time: float
    endpoint: str
    key: str | None
    asked: str
    rule: str | None
    reasons: tuple[str, ...]
    served_by: str
    fallbacks: tuple[str, ...] = ()
    changes: list[str] = field(default_factory=list)
    """What made it go elsewhere afterwards, in order."""
