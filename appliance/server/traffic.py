"""What is learned of requests as they pass, for those that follow."""

from collections import deque
from dataclasses import dataclass, field

from appliance.control.calibration import learned
from appliance.control.peers import Peers
from appliance.control.trips import Trips
from appliance.server.decisions import KEPT, Decision


@dataclass(slots=True)
class Traffic:
    """`scale` is that of `appliance.control.calibration`, by family; the latest of `decisions` is last."""

    peers: Peers = field(default_factory=Peers)
    trips: Trips = field(default_factory=lambda: Trips({}))
    scale: dict[str, float] = field(default_factory=dict)
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=KEPT))

    def read(self, family: str, estimated: int, actual: int) -> None:
        """A prompt had so many tokens."""
        if (scale := learned(self.scale.get(family), estimated, actual)) is not None:
            self.scale[family] = scale
