"""Mixed load on a running appliance: clients of three protocols, of whom some leave early, and what disturbs them."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from appliance.cli.admin_client import AdminClient, NotReachable, Refused
from tests.bench.prompts import chat, words

STEADY, TOSSED = "steady", "tossed"
"""The model nobody touches, and the one that is killed, rebuilt and unloaded."""
ERRORS = (b'data: {"error"', b"event: error")
"""How a stream says that it broke; its text may hold the word."""
LEAVE_EARLY, STREAMED = 0.25, 0.8
"""Shares of the requests."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Where it is spoken, what is asked, and the line its streams end with."""

    path: str
    body: Callable[[str], dict[str, Any]]
    last: bytes


PROTOCOLS = {
    "chat": Protocol("/v1/chat/completions", lambda seed: {"messages": chat(48, seed)}, b"data: [DONE]"),
    "completions": Protocol("/v1/completions", lambda seed: {"prompt": words(48, seed)}, b"data: [DONE]"),
    "anthropic": Protocol("/v1/messages", lambda seed: {"messages": chat(48, seed)}, b"event: message_stop"),
}


@dataclass(slots=True)
class Mixed:
    """`deploy` makes the deploy file of the nth reload. `counts` holds answers by protocol, requests left early and
    disturbances; `failures` what was not answered as it should be. `pace` is the mean of the seconds between two
    disturbances of a kind.
    """

    url: str
    file: Path
    admin: AdminClient
    deploy: Callable[[int], str]
    clients: int
    max_tokens: int
    pace: float
    random: Random
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, seconds: float) -> None:
        """Keep it up for so long; requests under way are answered."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
            for number in range(self.clients):
                tasks.create_task(self._client(session, number))
            for disturb in (self._reload, self._toss, self._kill):
                tasks.create_task(self._again(disturb))
            await asyncio.sleep(seconds)
            self.over.set()

    # ---- clients
    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        turn = 0
        while not self.over.is_set():
            turn += 1
            name = self.random.choice(list(PROTOCOLS))
            try:
                await self._ask(session, name, f"{number}-{turn}")
            except (aiohttp.ClientError, TimeoutError) as error:
                self._failed(name, repr(error))

    async def _ask(self, session: aiohttp.ClientSession, name: str, seed: str) -> None:
        protocol = PROTOCOLS[name]
        leaves, streamed = self.random.random() < LEAVE_EARLY, self.random.random() < STREAMED
        body = {
            "model": self.random.choice((STEADY, TOSSED)), "max_tokens": self.max_tokens, "stream": streamed,
            "temperature": self.random.choice((0, 1)), **protocol.body(seed),
        }  # fmt: skip
        patience = self.random.randint(0, 6) if leaves else None
        async with session.post(f"{self.url}{protocol.path}", json=body) as response:
            if response.status != 200:
                self._failed(name, f"{response.status}: {(await response.text())[:300]}")
                return
            if patience == 0:
                self.counts["left early"] += 1
                return
            lines = list[bytes]()
            async for line in response.content:
                lines.append(line)
                if len(lines) == patience and streamed:
                    self.counts["left early"] += 1
                    return
        text = b"".join(lines)
        if any(mark in text for mark in ERRORS) or (streamed and protocol.last not in text):
            self._failed(name, f"it ended with {text[-300:]!r}")
        else:
            self.counts[name] += 1

    def _failed(self, name: str, what: str) -> None:
        self.failures.append(f"{name}: {what}")

    # ---- disturbances
    async def _again(self, disturb: Callable[[], Awaitable[None]]) -> None:
        while not self.over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.pace * self.random.uniform(0.5, 1.5)):
                    await self.over.wait()
                    return
            await disturb()

    async def _reload(self) -> None:
        """Other settings each time, and each time another engine for the tossed model."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(self.deploy(self.counts["reload"] + 1))
        fresh.rename(self.file)
        await self._order("reload", "/reload")

    async def _toss(self) -> None:
        """Unload it where nobody uses it, and load it again."""
        with suppress(Refused):
            await asyncio.to_thread(self.admin.post, f"/models/{TOSSED}/unload")
            self.counts["unloads"] += 1
        await self._order("load", f"/models/{TOSSED}/load")

    async def _kill(self) -> None:
        status = await asyncio.to_thread(self.admin.get, "/status")
        for model in status["models"]:
            if model["name"] == TOSSED and model["state"] == "ready":
                with suppress(ProcessLookupError):
                    os.kill(model["pid"], signal.SIGKILL)
                    self.counts["kills"] += 1

    async def _order(self, what: str, path: str) -> None:
        try:
            await asyncio.to_thread(self.admin.post, path)
            self.counts[what] += 1
        except (Refused, NotReachable) as error:
            self.failures.append(f"{what}: {error}")
