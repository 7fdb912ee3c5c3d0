"""The door every request passes before its body is read: whose key it brings, and whether that key has room."""

import ipaddress
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from sanic import Request

from appliance.config.access import Key, Security
from appliance.control import limits
from appliance.control.clock import now_in
from appliance.control.keys import Asking, Ring, presented
from appliance.control.limits import Account, Moment, Standing
from appliance.control.running import Running
from appliance.control.usage import Usage, Used
from appliance.server.origins import check_page

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Set by proxies: who speaks through one on this machine may be anywhere."""


def is_local(request: Request) -> bool:
    """Whether the client is on this machine, and speaks for itself."""
    if any(name in request.headers for name in FORWARDED):
        return False
    if (peer := _address(request)) is None:
        return True
    address = ipaddress.ip_address(peer.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _address(request: Request) -> str | None:
    """Of the client; None for one on a unix socket, where no browser comes."""
    peer = request.transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else None


@dataclass(slots=True)
class Passage:
    """One request inside. Tokens count as they come, so that leaving early saves nobody anything."""

    key: Key | None = None
    spend: Callable[[int], None] = lambda tokens: None
    record: Callable[[str, Used], None] = lambda model, used: None
    left: Callable[[], None] = lambda: None
    _unfinished: dict[int, int] = field(default_factory=dict)
    _prompts: dict[int, tuple[int, int]] = field(default_factory=dict)
    _written: int = 0
    _reasons: int = 0

    def stay(self) -> None:
        """It has one more reason to be inside; it takes as many `leave` to be outside."""
        self._reasons += 1

    def leave(self) -> None:
        """It has one reason less."""
        self._reasons -= 1
        if not self._reasons:
            self.left()

    def read(self, index: int, prompt_tokens: int, cached_tokens: int) -> None:
        """Prompt `index` has so many tokens, of which some were cached; whoever only estimated may say it again."""
        before, _ = self._prompts.get(index, (0, 0))
        self._prompts[index] = prompt_tokens, cached_tokens
        if prompt_tokens != before:
            self.spend(prompt_tokens - before)

    def wrote(self, index: int, tokens: int) -> None:
        """Answer `index` grew by so many tokens."""
        self._unfinished[index] = self._unfinished.get(index, 0) + tokens

    def finished(self, index: int, completion_tokens: int) -> None:
        """Answer `index` is whole and has so many tokens."""
        self._unfinished.pop(index, None)
        self._written += completion_tokens
        self.spend(completion_tokens)

    def close(self, model: str) -> None:
        """Nothing more comes: count what was written of answers that were not finished, and record the whole."""
        for index, tokens in list(self._unfinished.items()):
            self.finished(index, tokens)
        if self._prompts:
            prompt, cached = map(sum, zip(*self._prompts.values(), strict=True))
            self.record(model, Used(1, prompt, cached, self._written))
            self._prompts = {}


@dataclass(slots=True)
class Door:
    """Keeps every key's account; the keys are those of the deployment in force.

    `insecure`: without any keys, clients of other machines are let in. Without `usage`, days are not kept on disk.
    """

    running: Running
    insecure: bool = False
    usage: Usage | None = None
    _accounts: dict[str, Account] = field(default_factory=dict)
    _ring: tuple[Security, Ring] | None = None

    def key_of(self, request: Request, *, basic: bool = False) -> Key | None:
        """Whose request it is; None where no key is needed. `basic`: a key may come as the password a browser asked
        for. Raises InvalidKey, and what `check_page` raises where no key keeps pages out.
        """
        security = self.running.deployment.security
        if self._ring is None or self._ring[0] is not security:
            self._ring = security, Ring.of(security, open=self.insecure)
        local = is_local(request)
        today = now_in(self.running.deployment).date() if security.keys else date.min
        key = self._ring[1].admit(Asking(presented(request.headers, basic=basic), local, today))
        if key is None and _address(request) is not None:
            server = self.running.deployment.server
            check_page(request.headers, server.trusted_hosts, server.cors)
        return key

    @contextmanager
    def passing(self, request: Request, key: Key | None) -> Iterator[Passage]:
        """The request is inside within the block. Raises RateLimited; what its client should know of the key's
        rates is noted on the request either way.
        """
        if key is None:
            yield self.keyless()
            return
        with self.entered(key, lambda: setattr(request.ctx, "rates", self._rates(request, key))) as passage:
            yield passage

    def keyless(self) -> Passage:
        """What nobody's key is asked for: it has no limits, and is recorded."""
        return Passage(record=lambda model, used: self._record("", model, used))

    @contextmanager
    def entered(self, key: Key, told: Callable[[], None] = lambda: None) -> Iterator[Passage]:
        """The same for what a key asked for without a request of its own; `told` is called once the key was counted
        or refused. Raises RateLimited.
        """
        try:
            self._accounts[key.name] = limits.enter(key.limits, self._account(key), self._moment(), key.name)
        finally:
            told()
        name = key.name
        passage = Passage(
            key,
            spend=lambda tokens: self._spend(key, tokens),
            record=lambda model, used: self._record(name, model, used),
            left=lambda: self._leave(name),
        )
        passage.stay()
        try:
            yield passage
        finally:
            passage.leave()

    def _leave(self, key: str) -> None:
        self._accounts[key] = limits.leave(self._accounts[key], time.monotonic())

    def _spend(self, key: Key, tokens: int) -> None:
        account = limits.spend(key.limits, self._account(key), tokens, self._moment())
        self._accounts[key.name] = account
        if self.usage is not None and key.limits.daily_tokens is not None:
            self.usage.put(key.name, account.day, account.used)

    def _record(self, key: str, model: str, used: Used) -> None:
        if self.usage is not None:
            self.usage.add(key, model, used, time.time())

    def _account(self, key: Key) -> Account:
        return self._accounts.get(key.name) or Account()

    def _moment(self) -> Moment:
        now = now_in(self.running.deployment)
        tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), now.tzinfo)
        return Moment(time.monotonic(), now.date(), (tomorrow - now).total_seconds())

    def _rates(self, request: Request, key: Key) -> dict[str, str]:
        found = limits.standings(key.limits, self._account(key), time.monotonic())
        anthropic = request.path.startswith("/v1/messages") or "anthropic-version" in request.headers
        return {name: value for each in found for name, value in (_anthropic if anthropic else _openai)(each)}


def door(running: Running, insecure: bool, usage: Usage) -> Door:
    """A door that knows what was used before it was built."""
    today = now_in(running.deployment).date()
    accounts = {key: Account(day=today, used=tokens) for key, tokens in usage.of(today).items()}
    return Door(running, insecure, usage, accounts)


def _openai(standing: Standing) -> Iterator[tuple[str, str]]:
    yield f"x-ratelimit-limit-{standing.kind}", str(standing.limit)
    yield f"x-ratelimit-remaining-{standing.kind}", str(standing.remaining)
    yield f"x-ratelimit-reset-{standing.kind}", f"{standing.reset:.3f}s"


def _anthropic(standing: Standing) -> Iterator[tuple[str, str]]:
    full = datetime.now(UTC) + timedelta(seconds=standing.reset)
    yield f"anthropic-ratelimit-{standing.kind}-limit", str(standing.limit)
    yield f"anthropic-ratelimit-{standing.kind}-remaining", str(standing.remaining)
    yield f"anthropic-ratelimit-{standing.kind}-reset", full.strftime("%Y-%m-%dT%H:%M:%SZ")
