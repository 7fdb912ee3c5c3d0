"""A server that speaks HTTP/2 over TLS, and counts the connections that come."""

import asyncio
import ssl
import threading
from pathlib import Path
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from tests.server.fake_peer import ANSWER


class H2Peer:
    """`connections` have come so far; all of `together` requests have to be open at once before any is answered."""

    def __init__(self, files: tuple[Path, Path], together: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*files)
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        self._together, self._ready = together, threading.Event()
        self._waiting: list[tuple[H2Connection, asyncio.StreamWriter, int]] = []
        self.connections, self.port = 0, 0
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, daemon=True).start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        methods: dict[int, str] = {}
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                match event:
                    case RequestReceived(stream_id=stream, headers=headers):
                        methods[stream] = dict(headers)[":method"]
                    case DataReceived(flow_controlled_length=length, stream_id=stream):
                        connection.acknowledge_received_data(length, stream)
                    case StreamEnded(stream_id=stream) if methods[stream] == "POST":
                        self._ask(connection, writer, stream)
                    case StreamEnded(stream_id=stream):
                        self._answer(connection, writer, stream, (b"{}",))
            writer.write(connection.data_to_send())

    def _ask(self, connection: H2Connection, writer: asyncio.StreamWriter, stream: int) -> None:
        self._waiting.append((connection, writer, stream))
        if len(self._waiting) == self._together:
            for each in self._waiting:
                self._answer(*each, ANSWER)
            self._waiting.clear()

    @staticmethod
    def _answer(
        connection: H2Connection, writer: asyncio.StreamWriter, stream: int, parts: tuple[bytes, ...]
    ) -> None:
        connection.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
        for part in parts:
            connection.send_data(stream, part)
        connection.end_stream(stream)
        writer.write(connection.data_to_send())
