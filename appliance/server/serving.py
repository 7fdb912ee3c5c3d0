"""The life of the HTTP side: sockets accept, a drain lets what runs finish, and nothing is left open."""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress

from appliance import log
from appliance.config.deployment import Deployment
from appliance.errors import Unavailable
from appliance.server.app import build_app
from appliance.server.context import Context
from appliance.server.edge import request_id
from appliance.server.listeners import Bound, Listener, Listeners, Switch

FAREWELL_SECONDS = 6.0
"""How long ended streams get to send their last event."""
RENEW_SECONDS = 1.0
"""How often it is looked whether certificates have changed on disk."""
SWEEP_SECONDS = 0.05
"""How often connections of an address that is no longer served are looked at."""


class Serving:
    """HTTP on bound sockets; `drain` must be awaited in the end, and `sweep` runs until then."""

    def __init__(self, context: Context, bound: list[Bound]) -> None:
        self._context = context
        self._bound = bound
        self._listeners = Listeners(build_app(context), context.running.deployment.server.tls)

    async def start(self) -> None:
        """Accept connections from now on."""
        await self._listeners.start(self._bound)

    def opening(self, deployment: Deployment) -> AbstractAsyncContextManager[Switch]:
        """Bind the addresses of a deployment; see Listeners. Raises Rejected."""
        return self._listeners.opening(deployment)

    async def renew_certificates(self) -> None:
        """Until cancelled: certificates that have changed on disk are those of the next connection."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if self._listeners.certificates is not None:
                self._listeners.certificates.renew()

    async def sweep(self) -> None:
        """Until cancelled: connections of addresses that are no longer served are closed as their answers end."""
        listeners, told = self._listeners, set[Listener]()
        while True:
            await listeners.left.wait()
            listeners.left.clear()
            while leaving := [listener for listener in listeners.all if listener.leaves_by is not None]:
                for listener in leaving:
                    self._see_off(listener, told)
                await asyncio.sleep(SWEEP_SECONDS)

    def _see_off(self, listener: Listener, told: set[Listener]) -> None:
        late = asyncio.get_running_loop().time() - (listener.leaves_by or 0.0)
        if listener.close_idle() and late < FAREWELL_SECONDS:
            if late >= 0 and listener not in told:
                told.add(listener)
                self._end(listener)
            return
        listener.abort()
        told.discard(listener)
        self._listeners.all.remove(listener)
        log.get().info("server.left", address=str(listener.listen))

    def _end(self, listener: Listener) -> None:
        error = Unavailable("the server leaves this address", retry_after=1)
        for connection in listener.connections:
            if connection._http is not None and connection._http.request is not None:
                self._context.in_flight.end(error, request_id(connection._http.request))

    async def drain(self, seconds: float) -> None:
        """Begin nothing new, let generations finish for this long, end those that are left with an error they are
        told of, and close every connection. Until then whoever asks is told: a load balancer that the server is not
        ready, a client when to come back.
        """
        self._context.draining = True
        in_flight = self._context.in_flight
        if len(in_flight):
            log.get().info("server.draining", generations=len(in_flight), seconds=seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await in_flight.emptied()
        accepting = self._listeners.stop()
        in_flight.end(Unavailable("the server is shutting down", retry_after=5))
        await self._closed()
        for listener in accepting:
            listener.remove_file()

    async def _closed(self) -> None:
        """Connections close as their answers end; those that do not are cut."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                while self._close_idle():
                    await asyncio.sleep(0.02)
        for listener in self._listeners.all:
            listener.abort()

    def _close_idle(self) -> int:
        return sum(listener.close_idle() for listener in self._listeners.all)
