"""Who may ask for what: `security` of the file as frozen types."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from appliance.config.globs import is_glob
from appliance.config.layers import EMPTY, Policy, empty
from appliance.config.overlay import policy
from appliance.config.secret import Secret
from appliance.config.suggest import did_you_mean
from appliance.config.units import Rate

if TYPE_CHECKING:
    from appliance.config.world import Notes

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """None is no limit."""

    requests: Rate | None = None
    tokens: Rate | None = None
    concurrent: int | None = None
    daily_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """What the holder of a secret may do. `allow` are names or globs, `keep_alive_max` seconds."""

    name: str
    secret: Secret
    allow: tuple[str, ...]
    limits: Limits
    priority: Literal["low", "normal", "high"]
    egress: Literal["allow", "deny"]
    expires: date | None
    keep_alive_max: float
    strict_params: bool
    policy: Policy


@dataclass(frozen=True, slots=True)
class Security:
    """`loopback_without_key`: clients on this machine need none."""

    loopback_without_key: bool = True
    keys: Mapping[str, Key] = field(default_factory=empty)


def security(
    value: Mapping[str, Any], notes: "Notes", names: Collection[str], peers: Collection[str] = ()
) -> Security:
    """`names` are those a client may ask for, beside those of `peers`. Keys without a readable secret are left
    out.
    """
    written = {name: key for name, key in value.get("keys", EMPTY).items() if "secret" in key}
    keys = {name: _key(name, key) for name, key in written.items()}
    _distinct(keys, notes)
    for key in keys.values():
        for i, allowed in enumerate(key.allow):
            there = allowed in names or allowed.partition("/")[0] in peers
            if not is_glob(allowed) and not there:
                hint = did_you_mean(allowed, names)
                path = ("security", "keys", key.name, "allow", i)
                notes.say("E201", path, f"nothing is called {allowed}", hint)
    return Security(value.get("loopback_without_key", True), MappingProxyType(keys))


def _key(name: str, value: Mapping[str, Any]) -> Key:
    return Key(
        name=name,
        secret=value["secret"],
        allow=tuple(value.get("allow", ("*",))),
        limits=Limits(**value.get("limits", EMPTY)),
        priority=value.get("priority", "normal"),
        egress=value.get("egress", "allow"),
        expires=value.get("expires"),
        keep_alive_max=value.get("keep_alive", EMPTY).get("max", HOUR),
        strict_params=value.get("strict_params", False),
        policy=policy(value.get("policy", EMPTY)),
    )


def _distinct(keys: Mapping[str, Key], notes: "Notes") -> None:
    holders: dict[Secret, str] = {}
    for name, key in keys.items():
        first = holders.setdefault(key.secret, name)
        if first != name:
            hint = "give each key its own"
            notes.say("E218", ("security", "keys", name, "secret"), f"the same secret as {first}", hint)
