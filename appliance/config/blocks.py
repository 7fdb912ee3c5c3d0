"""The blocks `server`, `memory` and `cache` as frozen types: addresses, paths and shares of this machine's memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from appliance.config import tuning
from appliance.config.checked import Checked
from appliance.config.deployment import EMPTY, CachePolicy, Listen, MemorySettings, Queue, ServerSettings, Tls
from appliance.config.listen import BadAddress, address
from appliance.config.problem import Path
from appliance.config.suggest import did_you_mean
from appliance.config.units import Share, show_bytes
from appliance.config.world import Notes, World


@dataclass(frozen=True, slots=True)
class Blocks:
    """What cannot be is noted."""

    file: Checked
    world: World
    notes: Notes

    def server(self, server: Mapping[str, Any]) -> ServerSettings:
        reload = server.get("reload", {})
        return ServerSettings(
            listen=self.listen(server.get("listen", "127.0.0.1:8080")),
            request_timeout=server.get("request_timeout", 1800.0),
            first_token_timeout=server.get("first_token_timeout", 600.0),
            idle_timeout=server.get("idle_timeout", 120.0),
            drain_timeout=server.get("drain_timeout", 120.0),
            heartbeat=server.get("heartbeat", 15.0),
            max_body=server.get("max_body", 32 * 2**20),
            unknown_fields=server.get("unknown_fields", "warn"),
            watch=reload.get("watch", True),
            quiet=reload.get("quiet", 0.3),
            tls=self.tls(server.get("tls", EMPTY)),
            apis=tuple(server.get("apis", ("openai", "anthropic", "ollama"))),
            time_zone=self.time_zone(server.get("time_zone")),
            # Browsers write both in lower case.
            cors=tuple(origin.lower() for origin in server.get("cors", ())),
            trusted_hosts=tuple(name.lower().rstrip(".") for name in server.get("trusted_hosts", ())),
        )

    def time_zone(self, name: str | None) -> str | None:
        try:
            return None if name is None else ZoneInfo(name).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            hint = did_you_mean(name or "", available_timezones()) or "write it like Europe/Zurich"
            self.notes.say("E105", ("server", "time_zone"), f"there is no time zone {name} on this machine", hint)
            return None

    def tls(self, value: Mapping[str, str]) -> Tls | None:
        found = {}
        for key, file in value.items():
            path: Path = ("server", "tls", key)
            if (absolute := self.world.path(file, self.notes, path)) is None:
                continue
            if not self.world.stat(absolute):
                self.notes.say("E209", path, f"there is no file at {absolute}")
            found[key] = absolute
        if not {"cert", "key"} <= found.keys():
            return None
        return Tls(found["cert"], found["key"], found.get("client_ca"))

    def memory(self, memory: Mapping[str, Any]) -> MemorySettings:
        budget = self.amount(("memory", "budget"), memory.get("budget", Share(0.75)))
        reserve = memory.get("kv_reserve", Share(0.2))
        return MemorySettings(
            budget=budget,
            keep_free=self.part(memory.get("keep_free", 0), self.world.memory_bytes, ("memory", "keep_free")),
            kv_reserve=self.part(reserve, budget, ("memory", "kv_reserve")),
            max_loaded=memory.get("max_loaded"),
            exclusive=self.exclusive(memory.get("exclusive", ())),
            queue=Queue(**memory.get("queue", EMPTY)),
        )

    def part(self, written: int | Share, whole: int, path: Path) -> int:
        """Bytes of a whole, which they must not fill."""
        amount = round(written.of_memory * whole) if isinstance(written, Share) else written
        if whole and amount >= whole:
            self.notes.say("E213", path, f"{show_bytes(amount)} of {show_bytes(whole)} leaves nothing for models")
        return amount

    def exclusive(self, groups: Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
        models = self.file.value.get("models", EMPTY)
        for i, group in enumerate(groups):
            for j, name in enumerate(group):
                if name not in models:
                    path: Path = ("memory", "exclusive", i, j)
                    self.notes.say("E201", path, f"there is no model {name}", did_you_mean(name, models))
        return tuple(frozenset(group) for group in groups)

    def listen(self, written: str | list[str]) -> tuple[Listen, ...]:
        found: list[Listen] = []
        for i, text in enumerate([written] if isinstance(written, str) else written):
            path: Path = ("server", "listen") if isinstance(written, str) else ("server", "listen", i)
            try:
                base = self.world.bases[self.file.at_value(path).file]
                listen = address(text, base, self.world.home)
            except BadAddress as bad:
                self.notes.say("E216", path, bad.message, bad.hint)
                continue
            if listen in found:
                self.notes.say("E216", path, f"{text} stands twice", "delete one")
            found.append(listen)
        return tuple(found)

    def amount(self, path: Path, written: int | Share) -> int:
        total = self.world.memory_bytes
        amount = round(written.of_memory * total) if isinstance(written, Share) else written
        if amount > total:
            hint = f"this machine has {show_bytes(total)}"
            self.notes.say("E213", path, f"{show_bytes(amount)} is more than there is", hint)
        if amount == 0:
            self.notes.say("E213", path, "no memory at all", "write an amount like 8GiB or 75%")
        return amount

    def caches(self, cache: Mapping[str, Any], budget: int) -> dict[str, CachePolicy]:
        built_in: dict[str, Any] = {"chat": {"prefix": {}}, "none": {"prefix": "none"}}
        written = {**built_in, **cache}
        found = {}
        for name, value in written.items():
            prefix, path = value.get("prefix", "none"), ("cache", name, "prefix", "memory")
            amount = 0
            if prefix != "none":
                amount = self.amount(path, prefix.get("memory", Share(0.1)))
            if amount > budget and path in self.file.values:
                self.notes.say("E213", path, f"{show_bytes(amount)} is more than memory.budget, {show_bytes(budget)}")
            found[name] = self.cache(name, value, min(amount, budget))
        return found

    def cache(self, name: str, value: Mapping[str, Any], prefix_bytes: int) -> CachePolicy:
        prefix = value.get("prefix", "none")
        prefix = EMPTY if prefix == "none" else prefix
        directory = self.world.own("kv")
        if "path" in prefix:
            directory = self.world.path(prefix["path"], self.notes, ("cache", name, "prefix", "path")) or directory
        return CachePolicy(
            name=name,
            prefix_bytes=prefix_bytes,
            disk_bytes=prefix.get("disk", 0),
            path=directory,
            ttl=prefix.get("ttl", 604800.0),
            share=value.get("share", "key"),
            stored=tuning.kv({name: prefix[name] for name in ("bits", "group") if name in prefix}),
        )
