"""The life of the HTTP side: sockets accept, a drain lets what runs finish, and nothing is left open."""

import asyncio
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from sanic.server.protocols.http_protocol import HttpProtocol

from appliance import log
from appliance.config.deployment import Listen, UnixListen
from appliance.errors import StartRefused, Unavailable
from appliance.server.app import build_app
from appliance.server.context import Context
from appliance.server.listen import BACKLOG, bind

FAREWELL_SECONDS = 6.0
"""How long ended streams get to send their last event."""


Bound = tuple[Listen, socket.socket]
"""An address of the deploy file and a socket that listens there; a host name may need several."""


def bind_all(listens: Iterable[Listen]) -> list[Bound]:
    """Listen on every address, before anything else is started. Raises StartRefused for the first that cannot be
    had.
    """
    bound: list[Bound] = []
    try:
        for listen in listens:
            bound += [(listen, sock) for sock in bind(listen)]
    except StartRefused:
        for _, sock in bound:
            sock.close()
        raise
    return bound


class Serving:
    """HTTP on bound sockets; `drain` must be awaited in the end."""

    def __init__(self, context: Context, bound: list[Bound]) -> None:
        self._context = context
        self._bound = bound
        self._servers: list[Any] = []

    async def start(self) -> None:
        """Accept connections from now on."""
        app = build_app(self._context)
        for _, sock in self._bound:
            server = await app.create_server(
                sock=sock,
                protocol=HttpProtocol,
                backlog=BACKLOG,
                return_asyncio_server=True,
                asyncio_server_kwargs={"start_serving": False},
            )
            assert server is not None
            self._servers.append(server)
        await self._servers[0].startup()
        for server in self._servers:
            await server.start_serving()

    async def drain(self, seconds: float) -> None:
        """Take nothing new, let generations finish for this long, end those that are left with an error they are
        told of, and close every connection.
        """
        self._context.draining = True
        for server in self._servers:
            server.server.close()
        self._close_idle()
        in_flight = self._context.in_flight
        if len(in_flight):
            log.get().info("server.draining", generations=len(in_flight), seconds=seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await in_flight.emptied()
        in_flight.end(Unavailable("the server is shutting down", retry_after=5))
        await self._closed()
        self._remove_unix_sockets()

    async def _closed(self) -> None:
        """Connections close as their answers end; those that do not are cut."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                while self._close_idle():
                    await asyncio.sleep(0.02)
        for connection in self._connections():
            connection.abort()

    def _close_idle(self) -> int:
        """Close what waits for a next request; how many are still busy."""
        return sum(not connection.close_if_idle() for connection in self._connections())

    def _connections(self) -> list[Any]:
        return [connection for server in self._servers for connection in server.connections]

    def _remove_unix_sockets(self) -> None:
        for listen, _ in self._bound:
            if isinstance(listen, UnixListen):
                with suppress(OSError):
                    os.unlink(listen.path)
