"""The connections to other servers, kept for the next request; which of those are well, and what models they have."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from appliance import log
from appliance.config.routing import Peer
from appliance.protocols.peers.kinds import KINDS
from appliance.protocols.peers.listing import LONGEST_LIST, model_names

CONNECT_SECONDS = 5.0
HEALTH_SECONDS = 5.0
"""How long a peer may take to say that it is well."""
LOOK_SECONDS = 0.25
"""How often it is looked whether a peer is due to be asked."""

_log = log.get()


@dataclass(slots=True)
class _Known:
    """A peer and its connections. `due` is when it is next asked whether it is well, `models` what it said it has."""

    client: httpx.AsyncClient
    busy: int = 0
    due: float = 0.0
    trouble: str = ""
    models: tuple[str, ...] = ()


class Peers:
    """One for each server; `watch` runs beside it, `close` ends all connections."""

    def __init__(self) -> None:
        self._known: dict[Peer, _Known] = {}

    def down(self) -> dict[str, str]:
        """By name, what is wrong with the peers that are not well."""
        return {peer.name: known.trouble for peer, known in self._known.items() if known.trouble}

    def models(self, peer: Peer) -> tuple[str, ...]:
        """Its models, by its own names, as it listed them when it was last well."""
        known = self._known.get(peer)
        return known.models if known is not None else ()

    @asynccontextmanager
    async def client(self, peer: Peer) -> AsyncIterator[httpx.AsyncClient]:
        """The connections to it; who holds them keeps them open."""
        known = self._of(peer)
        known.busy += 1
        try:
            yield known.client
        finally:
            known.busy -= 1

    def heard(self, peer: Peer, trouble: str = "") -> None:
        """What became of asking it something."""
        known = self._of(peer)
        if bool(known.trouble) != bool(trouble):
            _log.info("peer.up" if known.trouble else "peer.down", peer=peer.name, reason=trouble or None)
        known.trouble = trouble

    async def watch(self, present: Callable[[], Collection[Peer]]) -> None:
        """Until cancelled: ask the peers there are at present how they are, and let go of those there were."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                now, peers = asyncio.get_running_loop().time(), set(present())
                for peer in peers:
                    known = self._of(peer)
                    if peer.health < math.inf and now >= known.due:
                        known.due = math.inf
                        tasks.create_task(self._examine(peer))
                for peer in [p for p, known in self._known.items() if p not in peers and not known.busy]:
                    await self._known.pop(peer).client.aclose()
                await asyncio.sleep(LOOK_SECONDS)

    async def close(self) -> None:
        """Close every connection."""
        for known in self._known.values():
            await known.client.aclose()
        self._known.clear()

    async def _examine(self, peer: Peer) -> None:
        kind = KINDS[peer.api]
        async with self.client(peer) as client:
            try:
                async with asyncio.timeout(HEALTH_SECONDS):
                    status, said = await _look(client, url(peer, kind.health))
                    if status < 500 and kind.models != kind.health:
                        _, said = await _look(client, url(peer, kind.models))
                self.heard(peer, "" if status < 500 else f"it answers {status} at {kind.health}")
                if status < 500:
                    self._of(peer).models = model_names(said)
            except TimeoutError:
                self.heard(peer, f"it does not answer within {HEALTH_SECONDS:g} s")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                self.heard(peer, words(error))
        if (known := self._known.get(peer)) is not None:
            known.due = asyncio.get_running_loop().time() + peer.health

    def _of(self, peer: Peer) -> _Known:
        if peer not in self._known:
            secret = peer.key.reveal() if peer.key is not None else None
            self._known[peer] = _Known(
                httpx.AsyncClient(
                    http2=True,
                    headers={
                        "accept-encoding": "identity",
                        "user-agent": "appliance",
                        **KINDS[peer.api].headers(secret),
                    },
                    timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60),
                )
            )
        return self._known[peer]


async def _look(client: httpx.AsyncClient, address: str) -> tuple[int, bytes]:
    """Status and body, of which what is too long is left out."""
    async with client.stream("GET", address) as response:
        said = b""
        async for data in response.aiter_raw():
            said += data
            if len(said) > LONGEST_LIST:
                return response.status_code, b""
        return response.status_code, said


def words(error: Exception) -> str:
    """Some of these errors have no text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def url(peer: Peer, path: str) -> str:
    """Where a path of the protocol is; URLs are written with and without their /v1."""
    return f"{peer.url.removesuffix('/v1')}{path}"
