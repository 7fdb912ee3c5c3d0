"""Which models somebody has pinned by hand, and for how much longer. PURE."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Pins:
    """By model, until when."""

    until: dict[str, float] = field(default_factory=dict)

    def put(self, model: str, seconds: float, now: float) -> None:
        """Pin it for so long from now; 0 takes that back."""
        self.until[model] = now + seconds

    def left(self, now: float) -> dict[str, float]:
        """Seconds left, by model; what is over is forgotten."""
        self.until = {model: until for model, until in self.until.items() if until > now}
        return {model: until - now for model, until in self.until.items()}
