"""What a rule asks of a request and of the models at that moment, and what can never hold. PURE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from appliance.config.globs import takes_something
from appliance.config.layers import empty
from appliance.config.problem import Path
from appliance.config.units import Bound, Window

STATES = ("cold", "loading", "ready", "draining")
"""What a model can be in."""
_WITH_ROWS = frozenset({"ready", "draining"})


@dataclass(frozen=True, slots=True)
class Condition:
    """All of what is given must hold; an empty one always does. `model`, `endpoint` and header values may be globs,
    `effort` are those of which one is asked for, `warm` a model or an alias of one.

    By model or alias, `queue` bounds the requests that wait, `load` the busy rows in percent, `state` are the states
    of which it is in one.
    """

    model: str | None = None
    has: frozenset[str] = frozenset()
    prompt_tokens: Bound | None = None
    key: str | None = None
    time: Window | None = None
    endpoint: str | None = None
    effort: frozenset[str] = frozenset()
    warm: str | None = None
    header: Mapping[str, str] = field(default_factory=empty)
    queue: Mapping[str, Bound] = field(default_factory=empty)
    load: Mapping[str, Bound] = field(default_factory=empty)
    state: Mapping[str, frozenset[str]] = field(default_factory=empty)

    def states(self, model: str) -> frozenset[str]:
        """Those in which it may hold."""
        asked = self.state.get(model, frozenset(STATES))
        return asked & {"ready"} if self.warm == model else asked


def contradictions(when: Condition) -> Iterator[tuple[Path, str]]:
    """What can never hold: where in the condition, and why."""
    for model in when.state:
        if when.state[model] and not when.states(model):
            why = f"{model} cannot be in memory and {' or '.join(sorted(when.state[model]))}"
            yield ("state", model), why
    for model, bound in when.load.items():
        if not bound.holds(0) and when.states(model) and not when.states(model) & _WITH_ROWS:
            why = f"{model} has no busy rows while it is {' or '.join(sorted(when.states(model)))}"
            yield ("load", model), why
    endpoint: list[tuple[Path, str]] = [(("endpoint",), when.endpoint)] if when.endpoint else []
    for path, glob in [*endpoint, *((("header", name), text) for name, text in when.header.items())]:
        if not takes_something(glob):
            yield path, f"no text is like {glob}"
