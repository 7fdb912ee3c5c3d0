"""The step loop on a fake device in this process, turn by turn."""

from pathlib import Path
from typing import Any

from appliance.engine.backend import Batch, Step
from appliance.engine.fake import FakeBackend
from appliance.engine.inbox import Arrival, Cancellation, Configuration
from appliance.engine.loop import Loop
from appliance.engine.pipeline import Limits, Pipeline
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.scheduler import Scheduler
from appliance.engine.sequence import Sequence
from appliance.engine.speculation import Speculation
from appliance.vocab.event import Event, Failed, Finished, Started, TextDelta
from appliance.vocab.request import Sampling
from appliance.vocab.spec import EngineSettings, EngineSpec, Speculative
from appliance.wire.frames import Events
from tests.engine.harness import write_script


class Recording(FakeBackend):
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def launch(self, batch: Batch) -> Step:
        self.batches.append(batch)
        return super().launch(batch)


class Drive:
    """`settings` are those of the engine; a script's `kv_bytes_per_token` is 1, so budgets count tokens."""

    def __init__(
        self,
        folder: Path,
        *,
        rows: int = 4,
        tokens: int = 10_000,
        prefix: int = 0,
        speculative: Speculative | None = None,
        **script: Any,
    ) -> None:
        self.settings = EngineSettings(
            context=10_000, concurrency=rows, kv_bytes=tokens, prefix_bytes=prefix, stall_target=0.5
        )
        self.device = Recording()
        path = write_script(folder, **{"kv_bytes_per_token": 1, "token_bytes": 1, **script})
        info, self.tokenizer = self.device.load(
            EngineSpec(backend="fake", path=str(path)), self.settings, lambda phase, part: None
        )
        speculation = Speculation(speculative, able=True)
        self.scheduler = Scheduler(self.settings, 1, PrefixCache(prefix), speculation, trims=info.trims)
        self.emitted: list[Events] = []
        self.loop = Loop(self.device, self.scheduler, self.emitted.append)
        self._arrived = 0

    def arrival(
        self,
        id: int,
        prompt: str,
        *,
        max_tokens: int = 1000,
        priority: int = 0,
        seed: int = 0,
        foretold: str | None = None,
        tenant: str = "",
    ) -> Arrival:
        tokens = self.tokenizer.encode(prompt)
        sampling = Sampling(temperature=1.0, seed=seed)
        pipeline = Pipeline(self.tokenizer, Limits(frozenset({0}), max_tokens), prompt_tokens=len(tokens))
        self._arrived += 1
        return Arrival(
            Sequence(
                id=id,
                known=tokens,
                prompt_length=len(tokens),
                limit=len(tokens) + max_tokens,
                sampling=sampling,
                pipeline=pipeline,
                priority=priority,
                order=self._arrived,
                tenant=tenant,
                foretold=foretold and self.tokenizer.encode(foretold),
            )
        )

    def turn(self, *messages: Arrival | Cancellation | Configuration) -> None:
        self.loop.turn(messages)

    def finish(self) -> None:
        """Turn until there is nothing to do."""
        for _ in range(10_000):
            self.turn()
            if self.loop.idle:
                return
        raise AssertionError("it never becomes idle")

    def events(self, id: int) -> list[Event]:
        return [e for frame in self.emitted for part in frame.sequences if part.id == id for e in part.events]

    def text(self, id: int) -> str:
        return "".join(e.text for e in self.events(id) if isinstance(e, TextDelta))

    def ended(self, id: int) -> bool:
        return any(isinstance(e, Finished | Failed) for e in self.events(id))

    def started(self) -> list[int]:
        """Ids in the order they began to run."""
        return [
            part.id
            for frame in self.emitted
            for part in frame.sequences
            for event in part.events
            if isinstance(event, Started)
        ]
