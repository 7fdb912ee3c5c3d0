"""Who is asking, and what for: which key a secret belongs to, and what that key may ask for. PURE."""

import base64
import fnmatch
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Self

from appliance.config.access import Key, Security
from appliance.config.deployment import Overlay, Policy, Rewrite, Target
from appliance.config.sampling import Decided
from appliance.config.units import show_duration
from appliance.errors import BadRequest, InvalidKey, NotAllowed
from appliance.vocab.spec import WISHES

PRIORITIES = {"low": -1, "normal": 0, "high": 1}


@dataclass(frozen=True, slots=True)
class Asking:
    """What a client sent for a secret, whether it is on this machine, and the day by `server.time_zone`."""

    secret: str | None
    local: bool
    today: date


@dataclass(frozen=True, slots=True)
class Ring:
    """The keys of one `security`. `open`: without any keys, clients of other machines are let in too."""

    loopback_without_key: bool
    open: bool
    keys: tuple[tuple[bytes, Key], ...]

    @classmethod
    def of(cls, security: Security, *, open: bool = False) -> Self:
        keys = tuple((digest(key.secret.reveal()), key) for key in security.keys.values())
        return cls(security.loopback_without_key, open, keys)

    def admit(self, asking: Asking) -> Key | None:
        """The key it came with; None for a client that needs none. Raises InvalidKey."""
        key = self._holder(asking.secret) if asking.secret else None
        if key is not None:
            if key.expires is not None and asking.today >= key.expires:
                raise InvalidKey(f"the key `{key.name}` expired on {key.expires.isoformat()}")
            return key
        # Clients on this machine always send something, since their libraries want a key.
        if (asking.local and self.loopback_without_key) or (self.open and not self.keys):
            return None
        if asking.secret:
            raise InvalidKey("this key is not one of this server's")
        raise InvalidKey("a key is needed: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")

    def _holder(self, secret: str) -> Key | None:
        """Every digest is compared, so that the time it takes tells nothing."""
        sent, found = digest(secret), None
        for known, key in self.keys:
            if hmac.compare_digest(known, sent):
                found = key
        return found


def digest(secret: str) -> bytes:
    """What is compared in place of the secret: always of the same length."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def presented(headers: Mapping[str, str], *, basic: bool = False) -> str | None:
    """The secret of `Authorization: Bearer` or `x-api-key`; names are in lower case.

    `basic`: also the password of `Authorization: Basic`. Browsers send that by themselves once they were asked for
    it, for pages of others, too, so nothing that acts may take it.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    if basic and scheme.lower() == "basic" and (password := _password(token.strip())):
        return password
    return headers.get("x-api-key", "").strip() or None


def _password(token: str) -> str | None:
    """RFC 7617: base64 of name, colon and password."""
    try:
        return base64.b64decode(token, validate=True).decode().partition(":")[2]
    except ValueError:
        return None


def permits(key: Key | None, asked: str) -> bool:
    """Whether it may ask for this name; where the file then sends it is the file's decision."""
    name = asked.partition(":")[0]
    # Names that peers give may hold a colon.
    return key is None or any(allowed in (name, asked) or fnmatch.fnmatchcase(name, allowed) for allowed in key.allow)


def check(key: Key | None, asked: str) -> None:
    """Raises NotAllowed for a name the key may not ask for."""
    if key is not None and not permits(key, asked):
        raise NotAllowed(f"the key `{key.name}` may not use the model `{asked[:200]}`", param="model")


def ruled(key: Key | None, target: Target) -> Target:
    """The target under the key's own policy."""
    if key is None or key.policy == Policy():
        return target
    return replace(target, overlays=(Overlay(policy=key.policy), *target.overlays))


def accept(key: Key | None, decided: Decided) -> Decided:
    """Raises BadRequest where a policy changed what was asked for and the key wants to be told."""
    if key is not None and key.strict_params and decided.rewrites:
        first = decided.rewrites[0]
        raise BadRequest(
            f"`{first.param}` {first.asked} is not allowed here: it would be {first.given}", param=first.param
        )
    return decided


def kept(key: Key | None, asked: float | None) -> tuple[float | None, tuple[Rewrite, ...]]:
    """For how many seconds after a request its model stays, where the request speaks of that: no longer than the key
    may ask for.
    """
    if key is None or asked is None or asked <= key.keep_alive_max:
        return asked, ()
    cut = Rewrite("keep_alive", "clamped", show_duration(asked), show_duration(key.keep_alive_max))
    return key.keep_alive_max, (cut,)


def namespace(key: Key | None, salt: str, share: str) -> str:
    """Whose prefixes a request may hit. Names of keys hold no colon, so no salt leads into another key's."""
    if share == "all" or key is None:
        return f":{salt}" if salt else ""
    return f"{key.name}:{salt}"


def priority(key: Key | None, wish: int) -> int:
    """Higher goes first: the key's class, then the client's own wish."""
    rank = PRIORITIES[key.priority] if key else 0
    return rank * 2 * WISHES + min(max(wish, 1 - WISHES), WISHES - 1)
