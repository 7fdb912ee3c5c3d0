"""Which request goes where: `routing` of the file as frozen types, and the references in it."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from appliance.config.condition import Condition, contradictions
from appliance.config.coverage import Asked, Box, Space, space
from appliance.config.layers import EMPTY, Overlay, empty
from appliance.config.overlay import overlay
from appliance.config.problem import Path
from appliance.config.secret import Secret
from appliance.config.suggest import did_you_mean

if TYPE_CHECKING:
    from appliance.config.world import Notes

Failure = Literal["load_failed", "overloaded", "timeout", "context_exceeded"]
_FALLBACK_WHEN: tuple[Failure, ...] = ("load_failed", "overloaded", "timeout")


@dataclass(frozen=True, slots=True)
class Goal:
    """One place a rule sends to: a model, an alias, or `peer/model`; and what is laid over it on the way."""

    to: str
    weight: int = 1
    profile: str | None = None
    own: Overlay = Overlay()


@dataclass(frozen=True, slots=True)
class Rule:
    """`weighted`: goals are drawn by weight; otherwise they are in order of preference."""

    name: str
    when: Condition
    use: tuple[Goal, ...]
    weighted: bool
    prefer: Literal["order", "warm"]
    sticky: Literal["never", "session", "prefix"]


@dataclass(frozen=True, slots=True)
class Fallback:
    """Where requests for a model go when it fails before the first token for one of these reasons.

    After `trip` failures in a row it is not tried for `dwell` seconds, and then by one request at a time.
    """

    to: tuple[str, ...]
    when: tuple[Failure, ...]
    trip: int = 3
    dwell: float = 30.0


@dataclass(frozen=True, slots=True)
class Peer:
    """Another server, and what it speaks; `key` is what we send it.

    An answer has to begin within `timeout` seconds, and is asked for `retries` times more where none did. Every
    `health` seconds it is asked whether it is well.
    """

    name: str
    url: str
    key: Secret | None
    api: Literal["appliance", "openai", "compatible", "anthropic"] = "compatible"
    timeout: float = 60.0
    retries: int = 2
    health: float = 30.0


@dataclass(frozen=True, slots=True)
class Routing:
    """`unknown_model` None rejects names nobody has."""

    unknown_model: str | None = None
    virtual: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    fallback: Mapping[str, Fallback] = field(default_factory=empty)
    peers: Mapping[str, Peer] = field(default_factory=empty)


@dataclass(frozen=True, slots=True)
class Known:
    """The names a file gives to things."""

    models: Mapping[str, Any]
    aliases: Mapping[str, Any]
    profiles: Mapping[str, Any]
    keys: Mapping[str, Any]


def routing(value: Mapping[str, Any], notes: "Notes", known: Known) -> Routing:
    """The routing a checked value describes; what it names and is not there is noted."""
    unknown = value.get("unknown_model", "reject")
    fallback = {name: each for name, each in value.get("fallback", EMPTY).items() if "to" in each}
    peers = {name: _peer(name, peer) for name, peer in value.get("peers", EMPTY).items() if "url" in peer}
    found = Routing(
        unknown_model=None if unknown == "reject" else unknown,
        virtual=tuple(value.get("virtual", ())),
        rules=tuple(rule for _, rule in _rules(value)),
        fallback=MappingProxyType(
            {
                name: Fallback(
                    tuple(f["to"]), tuple(f.get("when", _FALLBACK_WHEN)), f.get("trip", 3), f.get("dwell", 30.0)
                )
                for name, f in fallback.items()
            }
        ),
        peers=MappingProxyType(peers),
    )
    _Check(notes, known, found, dict(_rules(value)), frozenset(_halved(value, notes))).all()
    return found


def _peer(name: str, value: Mapping[str, Any]) -> Peer:
    more = {key: value[key] for key in ("api", "timeout", "retries", "health") if key in value}
    return Peer(name, value["url"].rstrip("/"), value.get("key"), **more)


def _rules(value: Mapping[str, Any]) -> Iterator[tuple[int, Rule]]:
    """Those that are complete, with their places in the list."""
    for i, rule in enumerate(value.get("rules", ())):
        if {"name", "use"} <= rule.keys():
            yield i, _rule(rule)


def _halved(value: Mapping[str, Any], notes: "Notes") -> Iterator[int]:
    """The places of rules whose conditions could not all be read: what they leave to others is not known."""
    for path in notes.file.values:
        if path[:2] != ("routing", "rules") or path[3:4] != ("when",) or path in notes.file.nulls:
            continue
        if len(path) > 4 and not str(path[4]).startswith("x-") and not _is_there(value, path[1:]):
            yield int(path[2])


def _is_there(value: Any, path: Path) -> bool:
    for part in path:
        match value:
            case Mapping() if part in value:
                value = value[part]
            case list() if isinstance(part, int) and part < len(value):
                value = value[part]
            case _:
                return False
    return True


def _rule(value: Mapping[str, Any]) -> Rule:
    when = value.get("when", EMPTY)
    use: list[str | dict[str, Any]] = [value["use"]] if isinstance(value["use"], str) else value["use"]
    goals: list[dict[str, Any]] = [{"to": goal} if isinstance(goal, str) else goal for goal in use]
    return Rule(
        name=value["name"],
        when=Condition(
            model=when.get("model"),
            has=frozenset(when.get("has", ())),
            prompt_tokens=when.get("prompt_tokens"),
            key=when.get("key"),
            time=when.get("time"),
            endpoint=when.get("endpoint"),
            effort=frozenset(when.get("effort", ())),
            warm=when.get("warm"),
            header=MappingProxyType({name.lower(): text for name, text in when.get("header", EMPTY).items()}),
            queue=MappingProxyType(when.get("queue", {})),
            load=MappingProxyType(when.get("load", {})),
            state=MappingProxyType({name: frozenset(words) for name, words in when.get("state", EMPTY).items()}),
        ),
        use=tuple(
            Goal(goal.get("to", ""), goal.get("weight", 1), goal.get("profile"), overlay(goal)) for goal in goals
        ),
        weighted=any("weight" in goal for goal in goals),
        prefer=value.get("prefer", "order"),
        sticky=value.get("sticky", "never"),
    )


def _stays(key: Any) -> bool:
    """Whether requests of a key, as it is written, may not leave this machine."""
    return isinstance(key, Mapping) and key.get("egress") == "deny"


@dataclass(frozen=True, slots=True)
class _Check:
    notes: "Notes"
    known: Known
    routing: Routing
    placed: Mapping[int, Rule]
    halved: frozenset[int]

    def all(self) -> None:
        if self.routing.unknown_model is not None:
            self.target(self.routing.unknown_model, ("routing", "unknown_model"))
        self.virtual()
        self.rules()
        for name, fallback in self.routing.fallback.items():
            path: Path = ("routing", "fallback", name)
            if name not in self.known.models and not self.is_peers(name):
                self.unknown(name, path, self.known.models, key=True)
            for i, to in enumerate(fallback.to):
                if to == name:
                    self.notes.say("E204", (*path, "to", i), f"{name} falls back to itself", "delete it")
                else:
                    self.target(to, (*path, "to", i))

    def virtual(self) -> None:
        for i, name in enumerate(self.routing.virtual):
            for kind, names in (("a model", self.known.models), ("an alias", self.known.aliases)):
                if name in names:
                    hint = "rename one of them"
                    self.notes.say("E206", ("routing", "virtual", i), f"this is the name of {kind} too", hint)

    def rules(self) -> None:
        final: dict[str, int] = {}
        names: set[str] = set()
        drawn = self.drawn()
        for i, rule in self.placed.items():
            path: Path = ("routing", "rules", i)
            if rule.name in names:
                self.notes.say("E219", (*path, "name"), f"another rule is called {rule.name}", "rename one of them")
            names.add(rule.name)
            self.condition(i, rule.when, final)
            for where, goal in self.goals(rule, path):
                if not goal.to:
                    continue
                self.target(goal.to, where)
                if goal.profile is not None and goal.profile not in self.known.profiles:
                    hint = did_you_mean(goal.profile, self.known.profiles)
                    self.notes.say("E202", (*where[:-1], "profile"), f"there is no profile {goal.profile}", hint)
            self.covered(i, final, drawn)
            if rule.when == Condition(model=rule.when.model) and self.takes_all_it_says(i, rule):
                for name in self.asked(rule.when):
                    final.setdefault(name, i)

    def covered(self, place: int, final: Mapping[str, int], drawn: tuple[Space, Mapping[int, Box]]) -> None:
        """A rule that takes nothing earlier ones have left, and is not behind one that takes all."""
        asked = self.asked(self.placed[place].when)
        if not asked or all(name in final for name in asked) or any(contradictions(self.placed[place].when)):
            return
        room, boxes = drawn
        earlier = [i for i in self.placed if i < place and i not in self.halved]
        one = next((i for i in earlier if room.dead(boxes[place], [boxes[i]])), None)
        if one is not None:
            self.unreached(place, f"{self.called(one)} takes all that it would")
        elif room.dead(boxes[place], [boxes[i] for i in earlier]):
            self.unreached(place, "those before it together take all that it would")

    def unreached(self, place: int, why: str) -> None:
        message = f"rule `{self.placed[place].name}` is never reached: {why}"
        self.notes.say("E220", ("routing", "rules", place), message, "move it up, or delete it")

    def called(self, place: int) -> str:
        """A rule with its line."""
        line = self.notes.file.at_value(("routing", "rules", place)).line
        return f"`{self.placed[place].name}` (line {line})"

    def drawn(self) -> tuple[Space, dict[int, Box]]:
        """Where each rule holds."""
        asked = {i: self.as_asked(rule) for i, rule in self.placed.items()}
        room = space(asked.values(), self.routing.virtual, self.known.keys)
        return room, {i: room.box(each) for i, each in asked.items()}

    def as_asked(self, rule: Rule) -> Asked:
        """What coverage wants to know of a rule. One whose targets are all elsewhere does not hold for keys whose
        requests may not leave this machine.
        """
        away = all(self.leaves(goal.to) for goal in rule.use)
        keys = frozenset(name for name, key in self.known.keys.items() if not (away and _stays(key)))
        first = rule.use[0].to if rule.use else ""
        return Asked(rule.when, frozenset(self.asked(rule.when)), keys | {None}, first)

    def takes_all_it_says(self, place: int, rule: Rule) -> bool:
        """Whether its conditions are known, and it holds for keys, too, whose requests may not leave this machine."""
        if place in self.halved:
            return False
        return not any(map(_stays, self.known.keys.values())) or not all(self.leaves(goal.to) for goal in rule.use)

    def leaves(self, name: str) -> bool:
        """Whether a name leads to a peer, itself or over aliases, of which there are at most two."""
        for _ in range(2):
            alias = self.known.aliases.get(name) if name not in self.known.models else None
            name = (alias.get("model", name) if isinstance(alias, Mapping) else alias) or name
        return name not in self.known.models and self.is_peers(name)

    def is_peers(self, name: str) -> bool:
        """Whether it is written as a model of a peer that is there."""
        peer, _, model = name.partition("/")
        return bool(model) and peer in self.routing.peers

    def goals(self, rule: Rule, path: Path) -> Iterator[tuple[Path, Goal]]:
        """Each goal with the path of its name."""
        for i, goal in enumerate(rule.use):
            candidates: tuple[Path, ...] = ((*path, "use", i, "to"), (*path, "use", i), (*path, "use"))
            yield next(c for c in candidates if c in self.notes.file.values), goal

    @property
    def virtual_is_known(self) -> bool:
        """Whether what is written under `routing.virtual` could be read."""
        path: Path = ("routing", "virtual")
        return bool(self.routing.virtual) or path not in self.notes.file.values

    def asked(self, when: Condition) -> list[str]:
        """The virtual names a rule is about."""
        return [v for v in self.routing.virtual if when.model is None or fnmatch.fnmatchcase(v, when.model)]

    def condition(self, place: int, when: Condition, final: Mapping[str, int]) -> None:
        """A rule that can never be reached, or never holds, was meant otherwise."""
        path: Path = ("routing", "rules", place)
        asked = self.asked(when)
        if not asked and self.virtual_is_known:
            hint = "list it there" if when.model else "list the names to be routed there"
            text = f"{when.model} is not under routing.virtual" if when.model else "there are no virtual names"
            where: Path = (*path, "when", "model") if when.model else path
            self.notes.say("E220", where, f"this rule never holds: {text}", hint)
        elif asked and all(name in final for name in asked):
            self.unreached(place, f"{self.called(final[asked[0]])} takes everything before it")
        if when.warm is not None:
            self.here(when.warm, (*path, "when", "warm"))
        for key, names in (("load", when.load), ("state", when.state)):
            for name in names:
                self.here(name, (*path, "when", key, name), key=True)
        for name in when.queue:
            self.target(name, (*path, "when", "queue", name), key=True)
        for where, why in contradictions(when):
            self.notes.say("E220", (*path, "when", *where), f"this rule never holds: {why}", "correct or delete it")
        if when.key is not None and when.key not in self.known.keys:
            hint = did_you_mean(when.key, self.known.keys)
            self.notes.say("E221", (*path, "when", "key"), f"there is no key {when.key}", hint)

    def here(self, name: str, path: Path, *, key: bool = False) -> None:
        """Only models of this machine can be in memory."""
        if name not in self.known.models and name not in self.known.aliases:
            self.unknown(name, path, [*self.known.models, *self.known.aliases], key=key)
        elif self.leaves(name):
            said = f"{name} is a model of a peer, of which it is not known whether it is in memory"
            self.notes.say("E201", path, said, "name a model of this machine", key=key)

    def target(self, name: str, path: Path, *, key: bool = False) -> None:
        peer, slash, _ = name.partition("/")
        if name in self.known.models or name in self.known.aliases:
            return
        if slash and peer not in self.routing.peers:
            hint = did_you_mean(peer, self.routing.peers)
            self.notes.say("E222", path, f"there is no peer {peer}", hint or "write it under routing.peers", key=key)
        elif name in self.routing.virtual:
            self.notes.say(
                "E201", path, f"{name} is a virtual name, and rules are followed once", "name a model", key=key
            )
        elif not self.is_peers(name):
            self.unknown(name, path, [*self.known.models, *self.known.aliases], key=key)

    def unknown(self, name: str, path: Path, names: Iterable[str], *, key: bool = False) -> None:
        names = list(names)
        hint = did_you_mean(name, names) or f"models are {', '.join(list(self.known.models)[:6])}"
        self.notes.say("E201", path, f"there is no model {name}", hint if self.known.models else "", key=key)
