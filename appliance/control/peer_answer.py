"""One answer of another server: asked for again while nothing was heard, then told as events.

    events = generate(peers, peer, questions, n=1, envelope=Envelope(estimate=12), deadlines=deadlines)
    async with contextlib.aclosing(events):
        async for index, event in events: ...

Leaving early closes the request's stream, which tells the peer to stop.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
import msgspec

from appliance import log
from appliance.config.layers import empty
from appliance.config.routing import Peer
from appliance.control.peers import Peers, url, words
from appliance.control.timing import Clock, Deadlines, Indexed, in_time
from appliance.errors import ApplianceError, PeerFailed, TimedOut
from appliance.protocols.peers.failure import PASSING, failure
from appliance.protocols.peers.kinds import KINDS
from appliance.protocols.peers.question import Question
from appliance.vocab.event import Event, Started

FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
"""Seconds between a request and the same again."""
LONGEST_ERROR = 64 * 1024
"""Bytes of an error's body that are read."""
_SEEDS = 2**63

_log = log.get()


class _NoAnswer(Exception):
    """Nothing came of it, and nothing was heard: the same may be asked again. It carries what to say in the end."""

    def __init__(self, error: ApplianceError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a peer is told beside the question, and about how many tokens its prompt has."""

    estimate: int = 0
    headers: Mapping[str, str] = field(default_factory=empty)


async def generate(
    peers: Peers, peer: Peer, questions: Sequence[Question], *, n: int, envelope: Envelope, deadlines: Deadlines
) -> AsyncGenerator[Indexed, None]:
    """As `appliance.control.generation.generate`: `n` answers to each question, each asked for on its own.

    Raises PeerFailed, TimedOut, Unsupported, and what the peer's refusal means.
    """
    answers = [
        _Answer(peers, peer, _seeded(question, sample), envelope, at * n + sample)
        for at, question in enumerate(questions)
        for sample in range(n)
    ]
    async with aclosing(in_time(answers, deadlines, Clock())) as items:
        async for item in items:
            yield item


@dataclass(slots=True)
class _Answer:
    """One answer, asked for until something of it was heard."""

    peers: Peers
    peer: Peer
    question: Question
    envelope: Envelope
    index: int

    async def indexed(self) -> AsyncGenerator[Indexed, None]:
        """Started comes with the first that is heard: until then another could answer in the peer's place."""
        left, wait = self.peer.retries, FIRST_WAIT
        while True:
            begun = False
            try:
                async with aclosing(self._events()) as events:
                    async for event in events:
                        if not begun:
                            begun = True
                            yield self.index, Started(self.envelope.estimate, 0)
                        yield self.index, event
                return
            except _NoAnswer as none:
                if begun or not left:
                    raise none.error from none
                _log.info("peer.again", peer=self.peer.name, reason=none.error.message)
            await asyncio.sleep(wait)
            left, wait = left - 1, min(LONGEST_WAIT, wait * 4)

    async def _events(self) -> AsyncGenerator[Event, None]:
        kind = KINDS[self.peer.api]
        outgoing = kind.ask(self.question)
        if outgoing.left_out:
            _log.debug("peer.left_out", peer=self.peer.name, params=outgoing.left_out)
        headers = {"content-type": "application/json", "accept": "text/event-stream", **self.envelope.headers}
        async with self.peers.client(self.peer) as client, self._translated():
            request = client.build_request(
                "POST", url(self.peer, outgoing.path), content=outgoing.body, headers=headers
            )
            response = await self._sent(client, request)
            try:
                if response.status_code != 200:
                    raise await self._refusal(response)
                self.peers.heard(self.peer)
                reading = kind.read(self.envelope.estimate)
                async for data in response.aiter_raw():
                    for event in reading.feed(data):
                        yield event
                for event in reading.close():
                    yield event
            finally:
                await response.aclose()

    async def _sent(self, client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        try:
            async with asyncio.timeout(self.peer.timeout):
                return await client.send(request, stream=True)
        except TimeoutError:
            self.peers.heard(self.peer, f"no answer within {self.peer.timeout:g} s")
            raise TimedOut(
                f"the peer {self.peer.name} did not begin to answer within {self.peer.timeout:g} s"
            ) from None

    async def _refusal(self, response: httpx.Response) -> ApplianceError:
        body = b""
        async for data in response.aiter_raw():
            body += data
            if len(body) > LONGEST_ERROR:
                break
        error = failure(self.peer.name, response.status_code, response.headers, body)
        # One that says when to come back has thought about it.
        if response.status_code in PASSING and "retry-after" not in response.headers:
            raise _NoAnswer(error)
        return error

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """What goes wrong with connections, in our words."""
        name = self.peer.name
        try:
            yield
        except httpx.HTTPError as error:
            self.peers.heard(self.peer, words(error))
            raise _NoAnswer(PeerFailed(f"the peer {name} cannot be reached: {words(error)}")) from error
        except httpx.InvalidURL as error:
            raise PeerFailed(f"the peer {name} has no valid URL: {error}") from error


def _seeded(question: Question, sample: int) -> Question:
    if not sample or "seed" not in question.given_names:
        return question
    seed = (question.sampling.seed + sample) % _SEEDS
    return replace(question, sampling=msgspec.structs.replace(question.sampling, seed=seed))
