"""Logs the bodies of requests and answers, where `observability.log.bodies` asks for it; keys are masked."""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sanic import HTTPResponse, Request

from appliance import log
from appliance.config.deployment import Deployment
from appliance.config.secret import SHOWN
from appliance.control.keys import presented
from appliance.errors import ApplianceError
from appliance.server.context import Context
from appliance.server.edge import request_id
from appliance.server.tally import CLIENT_LEFT
from appliance.vocab.event import Event, ReasoningDelta, TextDelta, ToolCallDelta

LIMIT = 64 * 1024
"""The most characters that are logged of either."""
SHORTEST_KEY = 8
_NAMED = re.compile(r'("[\w-]*(?:api[_-]?key|authorization|secret|password)"\s*:\s*")(?:[^"\\]|\\.)*', re.IGNORECASE)


@dataclass(slots=True)
class Exchange:
    """One exchange. A stream is kept as the text of its events, so that no key is hidden by how it was cut."""

    on: bool
    status: int = 500
    error: str | None = None
    asked: bytes = b""
    answer: bytes | None = None
    _texts: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    _size: int = 0

    def said(self, index: int, event: Event) -> None:
        """A streamed answer went on."""
        if not self.on or self._size > LIMIT:
            return
        match event:
            case TextDelta(text):
                self._add(index, "text", text)
            case ReasoningDelta(text):
                self._add(index, "reasoning", text)
            case ToolCallDelta(call, _, name, arguments):
                self._add(index, f"call {call}", f"{name or ''}{arguments}")

    def _add(self, index: int, kind: str, text: str) -> None:
        self._texts.setdefault((index, kind), []).append(text)
        self._size += len(text)

    def ended(self, status: int, response: HTTPResponse | None) -> None:
        """The status it ended with, and the answer where it was sent whole."""
        self.status, self.answer = status, response.body if response is not None else None

    @property
    def answered(self) -> str:
        if self.answer is not None:
            return self.answer.decode(errors="replace")
        return "\n".join(f"{kind} {index}: {''.join(texts)}" for (index, kind), texts in self._texts.items())


@contextmanager
def logged_bodies(context: Context, request: Request) -> Iterator[Exchange]:
    """A request is answered in this block; afterwards it is logged if the file asked for that when it came."""
    deployment = context.running.deployment
    wanted = deployment.observability.bodies
    exchange = Exchange(on=wanted != "never")
    try:
        yield exchange
    except ApplianceError as error:
        exchange.status, exchange.error = error.status, error.message
        raise
    except asyncio.CancelledError:
        exchange.status = CLIENT_LEFT
        raise
    finally:
        if wanted == "always" or (wanted == "errors" and exchange.status >= 400):
            sent = presented(request.headers, basic=True) or ""
            # What clients send where no key is needed is often a word like `none`.
            _log(request, exchange, [*_secrets(deployment), *([sent] if len(sent) >= SHORTEST_KEY else [])])


def _log(request: Request, exchange: Exchange, secrets: list[str]) -> None:
    asked, answered = (
        covered(text, secrets) for text in (exchange.asked.decode(errors="replace"), exchange.answered)
    )
    say = log.get().warning if exchange.status >= 400 else log.get().info
    failed = {"error": covered(exchange.error, secrets)} if exchange.error else {}
    say("request.bodies", request=request_id(request), path=request.path[:200], status=exchange.status,
        asked=_cut(asked), answered=_cut(answered), **failed)  # fmt: skip


def covered(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, as they are or as JSON writes them, and without values that are named keys."""
    for secret in secrets:
        for written in {secret, json.dumps(secret)[1:-1]} - {""}:
            text = text.replace(written, SHOWN)
    return _NAMED.sub(rf"\g<1>{SHOWN}", text)


def _cut(text: str) -> str:
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}… ({len(text)} characters)"


def _secrets(deployment: Deployment) -> Iterator[str]:
    for key in deployment.security.keys.values():
        yield key.secret.reveal()
    for peer in deployment.routing.peers.values():
        if peer.key is not None:
            yield peer.key.reveal()
