"""A streaming chat client that notes when each piece of text arrives. It talks to this machine only."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import perf_counter
from types import MappingProxyType
from typing import Any

import aiohttp
import msgspec

from tests.bench.answer import Answer, Load, Outcome
from tests.bench.prompts import Chat
from tests.bench.servers import Server

REQUEST_SECONDS = 300


class AskFailed(RuntimeError):
    """A request was not answered as it should be: its time would be no measurement."""


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Usage(msgspec.Struct):
    completion_tokens: int


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


@asynccontextmanager
async def connections() -> AsyncIterator[aiohttp.ClientSession]:
    """As many connections as are asked for; a request that takes 5 minutes has failed."""
    limit = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limit) as session:
        yield session


async def ask(
    session: aiohttp.ClientSession,
    server: Server,
    chat: Chat,
    max_tokens: int,
    on_first: Callable[[], None] = lambda: None,
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> Answer:
    """One streamed answer, at temperature 0 unless `extra` says otherwise. Raises AskFailed on any error and where no
    usage comes.
    """
    body = {
        "model": server.model,
        "messages": chat,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **{field: value for field, value in extra.items() if field not in server.without},
    }
    arrivals, texts, usage, asked = list[float](), list[str](), None, perf_counter()
    async with session.post(f"{server.url}/v1/chat/completions", json=body) as response:
        if response.status != 200:
            raise AskFailed(f"{server.name} answered {response.status}: {(await response.text())[:300]}")
        async for line in response.content:
            if not line.startswith(b"data:") or line.startswith(b"data: [DONE]"):
                continue
            chunk = _decode(line[5:])
            if chunk.error is not None:
                raise AskFailed(f"{server.name} broke off: {chunk.error}")
            usage = chunk.usage or usage
            if text := "".join(choice.delta.content or "" for choice in chunk.choices):
                arrivals.append(perf_counter() - asked)
                texts.append(text)
                if len(texts) == 1:
                    on_first()
    if usage is None:
        raise AskFailed(f"{server.name} sent no usage after {len(texts)} pieces of text")
    return Answer(tuple(arrivals), perf_counter() - asked, usage.completion_tokens, "".join(texts))


async def run(session: aiohttp.ClientSession, server: Server, load: Load) -> Outcome:
    """Answer a load: each stream asks its next chat when its last is answered. Raises AskFailed."""
    waiting = iter(enumerate(load.requests))

    async def stream() -> list[tuple[int, Answer]]:
        return [(n, await ask(session, server, chat, load.max_tokens, extra=extra)) for n, (chat, extra) in waiting]

    begun = perf_counter()
    done = await asyncio.gather(*(stream() for _ in range(load.streams)))
    seconds = perf_counter() - begun
    numbered = sorted((pair for pairs in done for pair in pairs), key=lambda pair: pair[0])
    return Outcome(seconds, tuple(answer for _, answer in numbered))
