"""The time of day that a deployment's rules and quotas mean."""

from datetime import datetime
from zoneinfo import ZoneInfo

from appliance.config.deployment import Deployment


def now_in(deployment: Deployment) -> datetime:
    """Now in `server.time_zone`, else in that of the machine."""
    zone = deployment.server.time_zone
    return datetime.now(ZoneInfo(zone)) if zone else datetime.now().astimezone()
