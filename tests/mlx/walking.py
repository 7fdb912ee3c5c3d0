"""Random requests for a random engine: everything that may be asked at once, and what each would get alone."""

import json
import queue
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from appliance.engine.adapter import Adapter, read
from appliance.engine.backend import Batch, Chunk, Opening, Sampled
from appliance.engine.constraint import Constraint, Grammars
from appliance.engine.disk_tier import DiskTier
from appliance.engine.disk_worker import News
from appliance.engine.inbox import Arrival, Cancellation, Farewell, Message
from appliance.engine.loop import Loop
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.sampler import Choice, Sampler
from appliance.engine.pipeline import Limits, Pipeline
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.room import Room
from appliance.engine.rules import NO_RULES, Dry, Rules
from appliance.engine.scheduler import Scheduler
from appliance.engine.sequence import Sequence as Generation
from appliance.engine.speculation import Speculation
from appliance.vocab.event import Event, Failed
from appliance.vocab.request import Grammar, Sampling
from appliance.vocab.spec import BACKGROUND, DiskSettings, EngineSettings, EngineSpec, KvForm, Speculative
from appliance.wire.frames import Events
from tests import lora
from tests.mlx.families import VOCABULARY

NOISE = {32: 1e-4, 8: 3e-2, 4: 0.3}
"""What the same logit may differ by, when it is computed in a pass of another shape, by the bits of keys and values:
what float32 leaves in doubt may be rounded to the next of few numbers.
"""
STOPS = frozenset({0, 2})


@dataclass(frozen=True, slots=True)
class Ground:
    """What a walk is over: how the engine holds keys and values, and what is scarce."""

    form: KvForm | None = None
    stored: KvForm | None = None
    max_kv: int | None = None
    speculative: Speculative | None = None
    prefix_bytes: int = 1 << 24
    rows: int = 8
    room: int | None = None
    """Tokens that all rows may hold together."""
    stall: float = 0.5
    disk: bool = False

    @property
    def noise(self) -> float:
        return NOISE[32 if self.form is None else self.form.bits]

    def drafting(self, model: Path) -> "Ground":
        """With this one as its draft model."""
        assert self.speculative is not None
        return replace(self, speculative=replace(self.speculative, draft=str(model)))

    def settings(self, token_bytes: int = 1) -> EngineSettings:
        kv_bytes = 1 << 40 if self.room is None else self.room * token_bytes
        return EngineSettings(
            context=4096, concurrency=self.rows, kv_bytes=kv_bytes, prefix_bytes=self.prefix_bytes,
            stall_target=self.stall, kv=self.form, stored=self.stored,
        )  # fmt: skip


@dataclass(eq=False, slots=True)
class Asked:
    """One request, when it comes and goes, and what came of it."""

    prompt: list[int]
    sampling: Sampling
    tokens: int
    rules: Rules = NO_RULES
    stop_ids: frozenset[int] = STOPS
    constraint: Constraint | None = None
    adapter: Adapter | None = None
    foretold: list[int] | None = None
    namespace: str = ""
    priority: int = 0
    checkpoints: tuple[int, ...] = ()
    at: int = 0
    leaves: int | None = None
    got: list[Sampled] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    cached: bool = False

    @property
    def text(self) -> list[int]:
        return [sampled.token for sampled in self.got]


class Watched(MlxBackend):
    """Remembers which sequences began, however often, and which of them with something stored."""

    taken: set[int]
    opened: list[int]

    def open(self, opening: Opening) -> None:
        self.opened.append(opening.id)
        if opening.snapshot is not None:
            self.taken.add(opening.id)
        super().open(opening)


class _Listening(Pipeline):
    into: list[Sampled]
    _within = False

    def feed(self, sampled: Sampled) -> list[Event]:
        if self._within:  # it feeds itself what came with a prompt's scores
            return super().feed(sampled)
        self.into.append(sampled)
        self._within = True
        try:
            return super().feed(sampled)
        finally:
            self._within = False


class Engine:
    """A model on some ground. Its lives share the disk, if there is one."""

    def __init__(self, directory: Path, ground: Ground) -> None:
        self.ground = ground
        self.backend = Watched()
        spec = EngineSpec(backend="mlx", path=str(directory), speculative=ground.speculative, max_kv=ground.max_kv)
        self.info, self.tokenizer = self.backend.load(spec, ground.settings(), lambda phase, part: None)

    def answer(self, asked: Sequence[Asked], disk: Path | None = None) -> Scheduler:
        """Fill what each got: one life, in which memory begins empty."""
        news: queue.Queue[News] = queue.Queue()
        tier = DiskTier(self.backend.freezer(), news.put)
        self.backend.taken, self.backend.opened = set(), []
        frames: list[Events] = []
        scheduler = Scheduler(
            self.ground.settings(self.info.kv_bytes_per_token),
            self.info.kv_bytes_per_token,
            PrefixCache(self.ground.prefix_bytes, tier),
            Speculation(self.ground.speculative, self.info.trims),
            room=Room.of(self.info),
            trims=self.info.trims,
        )
        loop = Loop(self.backend, scheduler, frames.append, tier)
        if disk is not None:
            tier.configure(DiskSettings(path=str(disk), bytes=1 << 30, ttl=1e9, key="weights"))
        self._run(loop, scheduler, tier, news, asked)
        if disk is not None:
            loop.turn([Farewell()])
            while not tier.flush(0):
                loop.turn([news.get(timeout=10)])
            tier.configure(None)
        for id, one in enumerate(asked):
            one.events = [e for frame in frames for part in frame.sequences if part.id == id for e in part.events]
            one.cached = id in self.backend.taken
        assert self.backend.held_bytes() == 0
        return scheduler

    def _run(
        self, loop: Loop, scheduler: Scheduler, tier: DiskTier, news: "queue.Queue[News]", asked: Sequence[Asked]
    ) -> None:
        last = max(max(one.at, one.leaves or 0) for one in asked)
        turn = 0
        while turn <= last or not loop.idle or tier.waiting:
            messages: list[Message] = [Arrival(self._sequence(id, a)) for id, a in enumerate(asked) if a.at == turn]
            messages += [Cancellation(id) for id, one in enumerate(asked) if one.leaves == turn]
            while not news.empty():
                messages.append(news.get())
            if not messages and loop.idle and tier.waiting:
                messages.append(news.get(timeout=10))
            loop.turn(messages)
            turn += 1
            assert turn < 20_000
        assert (scheduler.running, scheduler.waiting) == (0, 0)

    def _sequence(self, id: int, asked: Asked) -> Generation:
        limits = Limits(asked.stop_ids, asked.tokens, asked.sampling.min_tokens)
        logprobs = asked.sampling.logprobs is not None
        pipeline = _Listening(self.tokenizer, limits, prompt_tokens=len(asked.prompt), logprobs=logprobs)
        pipeline.into = asked.got
        adapter = asked.adapter.name if asked.adapter else ""
        return Generation(
            id=id, known=list(asked.prompt), prompt_length=len(asked.prompt), limit=len(asked.prompt) + asked.tokens,
            sampling=asked.sampling, pipeline=pipeline, order=id, stop_ids=asked.stop_ids, foretold=asked.foretold,
            adapter=asked.adapter, constraint=asked.constraint, rules=asked.rules,
            namespace=f"{adapter}/{asked.namespace}", priority=asked.priority, checkpoints=asked.checkpoints,
        )  # fmt: skip


@dataclass
class Walk:
    """A seed's requests, over a checkpoint, on some ground."""

    seed: int
    directory: Path
    ground: Ground
    adapters: Sequence[Adapter] = ()
    count: int = 10

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._alone = Engine(self.directory, replace(self.ground, stored=None, speculative=None, prefix_bytes=0,
                             room=None, rows=1, stall=10.0))  # fmt: skip
        self._grammars = Grammars(self._alone.tokenizer.tokenizer_json, VOCABULARY, self._alone.tokenizer.eos_ids)
        draw = self._random
        self._prefixes = [
            self._tokens(draw.choice((3, 20, 40, 90, 200) if self.ground.room is None else (3, 20, 40)))
            for _ in range(3)
        ]

    def alone(self, asked: Asked) -> Asked:
        one = replace(asked, at=0, leaves=None, foretold=None, got=[], events=[])
        self._alone.answer([one])
        return one

    def requests(self) -> list[tuple[Asked, Asked]]:
        """Each, and what it gets alone."""
        made: list[tuple[Asked, Asked]] = []
        turn = 0
        for _ in range(self.count):
            turn += self._random.choice((0, 0, 0, 1, 2, 5, 15))
            asked = self._request(made, turn)
            alone = self.alone(asked)
            if self._random.random() < 0.5:
                asked.foretold = self._spoilt(alone.text)
            made.append((asked, alone))
        return made

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(3, VOCABULARY) for _ in range(count)]

    def _spoilt(self, text: list[int]) -> list[int]:
        every = self._random.choice((2, 5, 100))
        return [3 if n % every == every - 1 else token for n, token in enumerate(text)]

    def _prompt(self, made: Sequence[tuple[Asked, Asked]]) -> list[int]:
        draw = self._random
        match draw.choice(("prefix", "prefix", "prefix", "cut", "new", "again", "next turn")):
            case "again" if made:
                return list(draw.choice(made)[0].prompt)
            case "next turn" if made:
                asked, alone = draw.choice(made)
                return [*asked.prompt, *alone.text, *self._tokens(draw.randint(1, 20))]
            case "cut":
                prefix = draw.choice(self._prefixes)
                return [*prefix[: draw.randint(1, len(prefix))], *self._tokens(draw.randint(0, 5))]
            case "new":
                return self._tokens(draw.choice((1, 2, 9, 60)))
        return [*draw.choice(self._prefixes), *self._tokens(draw.randint(0, 40))]

    def _request(self, made: Sequence[tuple[Asked, Asked]], turn: int) -> Asked:
        draw = self._random
        prompt = self._prompt(made)
        return Asked(
            prompt,
            self._sampling(),
            draw.choice((1, 2, 8, 20, 60) if self.ground.room is None else (20, 60, 120)),
            rules=self._rules(),
            stop_ids=draw.choice((STOPS, STOPS, frozenset(), frozenset(draw.sample(range(VOCABULARY), 20)))),
            constraint=self._constraint(),
            adapter=draw.choice((None, None, None, *self.adapters)),
            namespace=draw.choice(("", "", "", "", "b")),
            priority=draw.choice((0, 0, 0, 1, 50, -BACKGROUND)),
            checkpoints=tuple(sorted(draw.sample(range(1, len(prompt)), min(2, len(prompt) - 1)))),
            at=turn,
            leaves=turn + draw.randint(1, 30) if draw.random() < 0.15 else None,
        )

    def _sampling(self) -> Sampling:
        draw = self._random
        given: dict[str, Any] = {"temperature": draw.choice((0, 0, 0.7, 1, 1.5)), "seed": draw.randrange(1 << 40)}
        some: dict[str, Any] = {
            "top_p": draw.choice((0.3, 0.9)), "top_k": draw.choice((1, 5, 40, 280)),
            "min_p": draw.choice((0.05, 0.4)),
            "repetition_penalty": draw.choice((0.8, 1.3)), "frequency_penalty": draw.choice((-0.5, 0.7)),
            "presence_penalty": draw.choice((-0.5, 0.9)), "min_tokens": draw.randint(1, 12),
            "logit_bias": {token: draw.choice((-5.0, 6.0)) for token in draw.sample(range(VOCABULARY), 4)},
            "logprobs": draw.choice((0, 3, 20)),
        }  # fmt: skip
        given |= {name: value for name, value in some.items() if draw.random() < 0.25}
        return Sampling(**given)

    def _rules(self) -> Rules:
        draw = self._random
        if draw.random() < 0.6:
            return NO_RULES
        some: dict[str, Any] = {
            "banned": tuple(tuple(self._tokens(draw.randint(1, 2))) for _ in range(30)),
            "allowed": tuple(sorted(draw.sample(range(VOCABULARY), 12))),
            "xtc": (draw.choice((0.5, 1.0)), 0.05),
            "scores": draw.choice((0, 3)),
            "dry": Dry(2.0, 1.75, draw.choice((1, 2)), draw.choice((None, 16)), frozenset(self._tokens(3))),
        }
        return Rules(**{name: value for name, value in some.items() if draw.random() < 0.35})

    def _constraint(self) -> Constraint | None:
        if self._random.random() < 0.8:
            return None
        return self._grammars.compile(self._random.choice(GRAMMARS))

    def near(self, asked: Asked, text: list[int], token: int) -> bool:
        """Whether noise alone could have had it say this token next, after this text."""
        return any(drawn == token for drawn in self._with_noise(asked, text))

    def _with_noise(self, asked: Asked, text: list[int]) -> Iterator[int]:
        known = [*asked.prompt, *text]
        backend = self._alone.backend
        backend.taken, backend.opened = set(), []
        sample, noise = Sampler.sample, self.ground.noise
        for key in range(64):

            def noisy(sampler: Sampler, logits: mx.array, key: int = key) -> Choice:
                return sample(sampler, logits + noise * mx.random.normal(logits.shape, key=mx.random.key(key)))

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(Sampler, "sample", noisy)
                rules = replace(asked.rules, scores=None)
                backend.open(Opening(-1, known, 0, None, asked.sampling, len(asked.prompt), asked.stop_ids,
                                     asked.constraint, rules, asked.adapter))  # fmt: skip
                step = backend.launch(Batch((), (Chunk(-1, 0, known[:-1], True),)))
                step.begin()
                step.wait()
                step = backend.launch(Batch((-1,), ()))
                step.begin()
                drawn = step.wait().sampled[-1].token
                backend.close(-1)
            yield drawn


GRAMMARS = [
    Grammar("regex", "[a-f]{3}-[0-9]{2,40}"),
    Grammar("json_object", ""),
    Grammar("choice", json.dumps(["yes", "no", "the world and the world"])),
    Grammar("lark", 'start: "a" /[xyz]+/ "b"'),
]


def adapters_of(backend: MlxBackend, folder: Path) -> list[Adapter]:
    targets = backend.targets()
    some = dict(list(targets.items())[::2])
    one = lora.write(folder / "one", lora.factors(targets, seed=1))
    other = lora.write(folder / "other", lora.factors(some, seed=2, rank=2), rank=2)
    return [read(str(one), targets), read(str(other), targets)]


@dataclass
class Verdict:
    answers: int = 0
    tokens: int = 0
    ties: int = 0
    cached: int = 0
    accepted: int = 0


def walk(engine: Engine, walk: Walk, disk: Path | None = None) -> Verdict:
    """Raises AssertionError for an answer that is not what it is alone."""
    verdict = Verdict()
    pairs = walk.requests()
    lives = [pairs] if disk is None else [pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]]
    for life in lives:
        asked = [each for each, _ in life]
        start = min(one.at for one in asked)
        for one in asked:
            one.at -= start
            one.leaves = None if one.leaves is None else one.leaves - start
        scheduler = engine.answer(asked, disk)
        verdict.accepted += scheduler.speculation.accepted
        for one, alone in life:
            _compare(walk, one, alone, verdict, engine.ground)
    return verdict


def _compare(walk: Walk, one: Asked, alone: Asked, verdict: Verdict, ground: Ground) -> None:
    failed = [event for event in one.events if isinstance(event, Failed)]
    assert [type(e) for e in alone.events if isinstance(e, Failed)] == [type(e) for e in failed], (failed, one)
    verdict.answers += 1
    verdict.cached += one.cached
    if one.cached and ground.stored is not None:
        return  # what is kept in fewer bits is not what was computed
    for place, (ours, theirs) in enumerate(zip(one.got, alone.got, strict=False)):
        if ours.token != theirs.token:
            assert walk.near(alone, alone.text[:place], ours.token), (walk.seed, place, one.text, alone.text, one)
            verdict.ties += 1
            return
        verdict.tokens += 1
        _same_numbers(ours, theirs, 5 * ground.noise)
    if one.leaves is None:
        assert len(one.got) == len(alone.got), (walk.seed, one, alone)


def _same_numbers(ours: Sampled, theirs: Sampled, within: float) -> None:
    assert (ours.logprob is None) == (theirs.logprob is None)
    if ours.logprob is not None and theirs.logprob is not None:
        assert ours.logprob == pytest.approx(theirs.logprob, abs=within), (ours.logprob, theirs.logprob)
    assert [c.logprob for c in ours.top] == pytest.approx([c.logprob for c in theirs.top], abs=within)
    assert len(ours.prompt) == len(theirs.prompt)
    for a, b in zip(ours.prompt, theirs.prompt, strict=True):
        assert a.token == b.token
        _same_numbers(a, b, within)
