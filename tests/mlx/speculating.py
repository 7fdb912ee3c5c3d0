"""The real step loop on MLX in this process, with and without guesses."""

from collections.abc import Sequence as Ids
from dataclasses import dataclass, field
from pathlib import Path

from appliance.engine.adapter import Adapter
from appliance.engine.backend import Batch, Sampled
from appliance.engine.constraint import Constraint
from appliance.engine.inbox import Arrival, Cancellation
from appliance.engine.loop import Loop
from appliance.engine.mlx.backend import MlxBackend
from appliance.engine.mlx.step import MlxStep
from appliance.engine.pipeline import Limits, Pipeline
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.room import Room
from appliance.engine.rules import NO_RULES, Rules
from appliance.engine.scheduler import Scheduler
from appliance.engine.sequence import Sequence
from appliance.engine.speculation import Speculation
from appliance.vocab.event import Event, Finished
from appliance.vocab.request import Sampling
from appliance.vocab.spec import EngineSpec, Speculative
from appliance.wire.frames import Events
from tests.mlx.driving import SETTINGS


@dataclass
class Asked:
    prompt: list[int]
    sampling: Sampling
    tokens: int = 24
    foretold: list[int] | None = None
    stop_ids: frozenset[int] = frozenset()
    adapter: Adapter | None = None
    constraint: Constraint | None = None
    rules: Rules = NO_RULES
    at: int = 0
    """The turn in which it arrives."""
    leaves: int | None = None
    """The turn in which its client leaves."""
    got: list[int] = field(default_factory=list)
    sampled: list[Sampled] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Recording(MlxBackend):
    batches: list[Batch]

    def launch(self, batch: Batch) -> MlxStep:
        self.batches.append(batch)
        return super().launch(batch)


class _Listening(Pipeline):
    """Keeps what was sampled, log-probabilities included."""

    into: list[Sampled]

    def feed(self, sampled: Sampled) -> list[Event]:
        self.into.append(sampled)
        return super().feed(sampled)


class Device:
    """A loaded model that answers several questions at a time."""

    def __init__(self, directory: Path, speculative: Speculative | None = None) -> None:
        self.backend = Recording()
        self.backend.batches = []
        spec = EngineSpec(backend="mlx", path=str(directory), speculative=speculative)
        self.info, self.tokenizer = self.backend.load(spec, SETTINGS, lambda phase, part: None)

    def answer(
        self,
        asked: Ids[Asked],
        speculative: Speculative | None = None,
        prefix_bytes: int = 0,
        prefixes: PrefixCache | None = None,
    ) -> Speculation:
        """Fill what each got; turn until all have ended."""
        self.backend.batches.clear()
        frames: list[Events] = []
        speculation = Speculation(speculative, self.info.trims)
        scheduler = Scheduler(
            SETTINGS,
            self.info.kv_bytes_per_token,
            PrefixCache(prefix_bytes) if prefixes is None else prefixes,
            speculation,
            room=Room.of(self.info),
            trims=self.info.trims,
        )
        loop = Loop(self.backend, scheduler, frames.append)
        for turn in range(10_000):
            come = [Arrival(self._sequence(id, one)) for id, one in enumerate(asked) if one.at == turn]
            gone = [Cancellation(id) for id, one in enumerate(asked) if one.leaves == turn]
            loop.turn([*come, *gone])
            if loop.idle and turn > max(one.at for one in asked):
                break
        for id, one in enumerate(asked):
            parts = [part for frame in frames for part in frame.sequences if part.id == id]
            one.got = [token for part in parts for token in part.tokens]
            one.events = [event for part in parts for event in part.events]
            assert isinstance(one.events[-1], Finished), one.events[-1]
        return speculation

    def _sequence(self, id: int, asked: Asked) -> Sequence:
        limits = Limits(asked.stop_ids, asked.tokens, asked.sampling.min_tokens)
        logprobs = asked.sampling.logprobs is not None
        pipeline = _Listening(self.tokenizer, limits, prompt_tokens=len(asked.prompt), logprobs=logprobs)
        pipeline.into = asked.sampled
        return Sequence(
            id=id,
            known=list(asked.prompt),
            prompt_length=len(asked.prompt),
            limit=len(asked.prompt) + asked.tokens,
            sampling=asked.sampling,
            pipeline=pipeline,
            order=id,
            stop_ids=asked.stop_ids,
            foretold=asked.foretold,
            adapter=asked.adapter,
            constraint=asked.constraint,
            rules=asked.rules,
            namespace=asked.adapter.name if asked.adapter else "",
        )
