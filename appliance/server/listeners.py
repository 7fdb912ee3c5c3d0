"""Which sockets accept connections; on a reload, new addresses are bound before old ones are left."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from sanic import Sanic

from appliance import log
from appliance.config.deployment import Deployment, FdListen, Listen, Tls, UnixListen
from appliance.config.problem import Rejected
from appliance.errors import StartRefused
from appliance.server.connection import Connection
from appliance.server.listen import BACKLOG, address, bind, overlap
from appliance.server.tls import Certificates, load

Bound = tuple[Listen, socket.socket]
"""An address of the deploy file and a socket that listens there; a host name may need several."""
Switch = Callable[[], Awaitable[None]]

_log = log.get()


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


@dataclass(slots=True, eq=False)
class Listener:
    """One socket, and the connections that came through it.

    Once its address is no longer served it leaves: its answers have to be over by `leaves_by`, of the loop's clock.
    """

    listen: Listen
    server: Any
    accepts: bool = True
    leaves_by: float | None = None
    secure: bool = False

    @property
    def connections(self) -> list[Any]:
        return list(self.server.connections)

    def stop(self) -> None:
        """Accept nothing more; connections stay."""
        self.accepts = False
        self.server.server.close()

    def remove_file(self) -> None:
        """What a unix socket leaves behind."""
        if isinstance(self.listen, UnixListen):
            with suppress(OSError):
                os.unlink(self.listen.path)

    def close_idle(self) -> int:
        """Close what waits for a next request; how many are still busy."""
        return sum(not connection.close_if_idle() for connection in self.connections)

    def abort(self) -> None:
        """Cut every connection."""
        for connection in self.connections:
            connection.abort()


class Listeners:
    """The sockets of one application, those that are left but still have connections among them. Raises StartRefused
    for certificates that cannot be used.
    """

    def __init__(self, app: Sanic[Any, Any], tls: Tls | None = None) -> None:
        self._app = app
        self.certificates = Certificates(tls) if tls is not None else None
        self.all: list[Listener] = []
        self.left = asyncio.Event()
        """Set when one begins to leave."""
        self._over = False

    async def start(self, bound: Iterable[Bound]) -> None:
        """Accept connections from now on."""
        self.all = [await self._listener(*each) for each in bound]
        await self.all[0].server.startup()
        for listener in self.all:
            await listener.server.start_serving()

    def stop(self) -> list[Listener]:
        """Accept nothing ever again; those that did until now."""
        self._over, accepting = True, self.accepting
        for listener in accepting:
            listener.stop()
        return accepting

    @property
    def accepting(self) -> list[Listener]:
        return [listener for listener in self.all if listener.accepts]

    @asynccontextmanager
    async def opening(self, deployment: Deployment) -> AsyncIterator[Switch]:
        """Within the block a deployment's addresses are bound beside those that are served. What is given serves
        them and leaves the others; without it, all is as it was when the block ends. Raises Rejected for an address
        that cannot be had.
        """
        tls, before = deployment.server.tls, self.certificates
        loaded = self._loaded(deployment)
        wanted = {(listen, _is_secure(listen, tls)) for listen in deployment.server.listen}
        known = {(listener.listen, listener.secure) for listener in self.accepting}
        going = [each for each in self.accepting if (each.listen, each.secure) not in wanted]
        opened: list[Listener] = []
        switched = False
        if before is None or tls is None:
            self.certificates = Certificates(tls) if tls is not None else None

        async def switch() -> None:
            nonlocal switched
            switched = True
            if self.certificates is not None and tls is not None and loaded is not None:
                self.certificates.use(tls, loaded)
            self.all = [listener for listener in self.all if listener.accepts or listener.connections] + opened
            for listener in opened:
                await listener.server.start_serving()
                _log.info("server.listening", address=address(listener.server.server.sockets[0], listener.secure))
            self._leave(going, asyncio.get_running_loop().time() + deployment.server.drain_timeout)

        try:
            for listen, where in zip(deployment.server.listen, deployment.listen_at, strict=True):
                if (listen, _is_secure(listen, tls)) not in known and not self._over:
                    try:
                        opened += await self._open(listen, going)
                    except StartRefused as refused:
                        problem = replace(where, message=refused.message)
                        raise Rejected([problem], deployment.files, deployment.digest) from refused
            yield switch
        finally:
            if not switched:
                self.certificates = before
                await self._take_back(opened, going)

    def _loaded(self, deployment: Deployment) -> Any:
        """The context of its files. Raises Rejected where they cannot be used."""
        if (tls := deployment.server.tls) is None:
            return None
        try:
            return load(tls)
        except StartRefused as refused:
            words = refused.message.removeprefix("server.tls: ")
            problem = replace(deployment.listen_at[0], path="server.tls", message=words)
            raise Rejected([problem], deployment.files, deployment.digest) from refused

    async def _open(self, listen: Listen, going: Iterable[Listener]) -> list[Listener]:
        """Raises StartRefused."""
        if isinstance(listen, FdListen):
            raise StartRefused(f"{listen} is handed over when the appliance starts; restart it")
        try:
            bound = bind(listen)
        except StartRefused:
            in_the_way = [each for each in going if each.accepts and overlap(each.listen, listen)]
            if not in_the_way:
                raise
            # Who is in the old socket's queue now is taken in before it is closed.
            await asyncio.sleep(0)
            for each in in_the_way:
                each.stop()
            bound = bind(listen)
        return [await self._listener(listen, sock) for sock in bound]

    async def _take_back(self, opened: Iterable[Listener], going: Iterable[Listener]) -> None:
        for listener in opened:
            listener.stop()
            listener.remove_file()
        for listen in dict.fromkeys(listener.listen for listener in going if not listener.accepts):
            try:
                await self._again(listen)
            except StartRefused as refused:
                _log.error("server.address_lost", reason=refused.message)

    async def _again(self, listen: Listen) -> None:
        for sock in bind(listen) if not self._over else ():
            listener = await self._listener(listen, sock)
            self.all.append(listener)
            await listener.server.start_serving()

    def _leave(self, going: Iterable[Listener], by: float) -> None:
        for listener in going:
            listener.stop()
            listener.remove_file()
            listener.leaves_by = by
            self.left.set()

    async def _listener(self, listen: Listen, sock: socket.socket) -> Listener:
        secure = self.certificates is not None and not isinstance(listen, UnixListen)
        server = await self._app.create_server(
            sock=sock,
            protocol=Connection,
            ssl=self.certificates.context if secure and self.certificates is not None else None,
            backlog=BACKLOG,
            return_asyncio_server=True,
            asyncio_server_kwargs={"start_serving": False},
        )
        assert server is not None
        return Listener(listen, server, secure=secure)


def _is_secure(listen: Listen, tls: Tls | None) -> bool:
    return tls is not None and not isinstance(listen, UnixListen)
