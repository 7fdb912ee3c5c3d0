"""What is learned of requests as they pass, for those that follow."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from appliance.control.peers import Peers
from appliance.control.scales import SAVE_SECONDS, Scales
from appliance.control.trips import Trips
from appliance.server.decisions import KEPT, Decision


@dataclass(slots=True)
class Traffic:
    """The latest of `decisions` is last."""

    peers: Peers = field(default_factory=Peers)
    trips: Trips = field(default_factory=lambda: Trips({}))
    scales: Scales = field(default_factory=Scales)
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=KEPT))

    async def keep(self) -> None:
        """Until cancelled: write what was learned."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            await asyncio.to_thread(self.scales.save)
