"""How hard a model shall think, in the words of its own template. PURE."""

from collections.abc import Iterable, Mapping
from typing import Any

from appliance.config.deployment import EMPTY, Family

SWITCH, EFFORT = "enable_thinking", "reasoning_effort"
"""What requests and deploy files call them, whatever the family's template does."""


def spoken(family: Family, layers: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Layers of template variables, strongest first, as the family's template knows them: `enable_thinking` by the
    family's own name, and the strongest effort as the variables it stands for there. What a layer says of those
    itself is stronger than what its effort stands for.
    """
    found, effort = [], True
    for layer in layers:
        own = _renamed(family, layer)
        implied = family.effort.get(str(own[EFFORT]), EMPTY) if effort and EFFORT in own else EMPTY
        effort = effort and EFFORT not in own
        found.append({**own, **{name: v for name, v in implied.items() if name not in own or name == EFFORT}})
    return found


def _renamed(family: Family, layer: Mapping[str, Any]) -> dict[str, Any]:
    """What the layer says; a null says nothing. The family's own name is stronger than the common one."""
    given = {name: value for name, value in layer.items() if value is not None}
    common = {family.switch: given.pop(SWITCH)} if SWITCH in given else {}
    return common | given
