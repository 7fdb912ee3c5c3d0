"""What a scripted device does, step by step; it refuses a step loop that breaks the Backend's contract."""

import os
import signal
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.engine.adapter import Targets
from appliance.engine.backend import Batch, Candidate, Chunk, Draft, Opening, Sampled, Snapshot, StepResult
from appliance.engine.disk_entry import BrokenEntry, Frozen, Tensor
from appliance.engine.fake import script as scripts
from appliance.engine.fake.script import Script
from appliance.engine.fake.tokenizer import END, FakeTokenizer, text_of
from appliance.engine.speed import NOTHING_READ, Reading, pairs
from appliance.errors import EngineFault, LoadFailed
from appliance.vocab.spec import DiskSettings, EngineSettings, EngineSpec, ModelInfo

_LOAD_PARTS = 10


@dataclass(frozen=True, slots=True)
class FakeSnapshot:
    tokens: tuple[int, ...]
    token_bytes: int
    trim: bool

    @property
    def nbytes(self) -> int:
        return len(self.tokens) * self.token_bytes

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def shortest(self) -> int:
        return 0 if self.trim else self.length


@dataclass(frozen=True, slots=True)
class FakeFreezer:
    """Writes a snapshot's tokens as numbers of eight bytes."""

    form: Callable[[], str]

    def key(self, settings: DiskSettings) -> str:
        return settings.key + self.form()

    def freeze(self, snapshot: Snapshot) -> Frozen:
        assert isinstance(snapshot, FakeSnapshot)
        data = memoryview(array("Q", snapshot.tokens).tobytes())
        return Frozen({"tokens": Tensor("U64", (len(snapshot.tokens),), data)}, [snapshot.token_bytes, snapshot.trim])

    def thaw(self, file: Path, layout: Any, length: int) -> FakeSnapshot:
        tokens = array("Q", file.read_bytes()[-8 * length :])
        if len(tokens) != length:
            raise BrokenEntry(f"it has {len(tokens)} tokens, not {length}")
        return FakeSnapshot(tuple(tokens), *layout)


@dataclass(eq=False, slots=True)
class _Row:
    opening: Opening
    script: Script
    tokens: list[int]
    answer: list[int]
    crash_limit: int | None
    computed: int
    decodes: bool = False
    fresh: int = 0
    """Tokens it got since it was opened."""

    def next_token(self) -> int:
        at = len(self.tokens) - self.opening.prompt_length
        if self.script.endless and self.answer:
            return self.answer[at % len(self.answer)]
        return self.answer[at] if at < len(self.answer) else END


@dataclass(frozen=True, slots=True)
class _Step:
    result: StepResult
    ready_at: float
    mishap: Callable[[], None] | None

    def begin(self) -> None:
        """It began with its launch."""

    def wait(self) -> StepResult:
        if (rest := self.ready_at - time.monotonic()) > 0:
            time.sleep(rest)
        if self.mishap is not None:
            self.mishap()
        return self.result


class FakeBackend:
    """Plays the script at `spec.path`."""

    def load(
        self, spec: EngineSpec, settings: EngineSettings, progress: Callable[[str, float], None]
    ) -> tuple[ModelInfo, FakeTokenizer]:
        began = time.monotonic()
        self._path = Path(spec.path)
        self._script = script = scripts.read(self._path)
        self._settings = settings
        for part in range(0 if spec.tokenizer_only else _LOAD_PARTS):
            progress("weights", part / _LOAD_PARTS)
            time.sleep(script.load_ms / 1000 / _LOAD_PARTS)
        if script.crash_load and not spec.tokenizer_only:
            self._crash(script)
        if script.fail_load is not None and not spec.tokenizer_only:
            raise LoadFailed(script.fail_load, permanent=script.permanent)
        self._tokenizer = FakeTokenizer(script.token_bytes, script.fail_render, script.special)
        self._rows: dict[int, _Row] = {}
        self._free_at = 0.0
        info = ModelInfo(
            context=script.context,
            vocab_size=self._tokenizer.vocab_size,
            weight_bytes=script.weight_bytes,
            kv_bytes_per_token=script.kv_bytes_per_token,
            dtype="float32" if spec.dtype == "auto" else spec.dtype,
            load_seconds=time.monotonic() - began,
            notes=("scripted answers",),
            trims=script.trim,
        )
        return info, self._tokenizer

    def configure(self, settings: EngineSettings) -> int:
        assert not self._rows, "rows are open"
        self._settings = settings
        return self._script.kv_bytes_per_token

    def held_bytes(self) -> int:
        return sum(row.computed for row in self._rows.values()) * self._script.kv_bytes_per_token

    def freezer(self) -> "FakeFreezer":
        def form() -> str:
            forms = {"kv": self._settings.kv, "stored": self._settings.stored}
            return "".join(f"-{name}{form.bits}" for name, form in forms.items() if form)

        return FakeFreezer(form)

    def keep_adapters(self, directories: Sequence[str]) -> None:
        """There are none."""

    def adapter_bytes(self) -> int:
        return 0

    def targets(self) -> Targets:
        """None: a script is not adapted."""
        return {}

    def open(self, opening: Opening) -> None:
        assert opening.id not in self._rows, "opened twice"
        assert opening.computed < len(opening.known), "nothing left to compute"
        if opening.computed:
            snapshot = opening.snapshot
            assert isinstance(snapshot, FakeSnapshot), "computed tokens without a snapshot"
            assert snapshot.tokens[: opening.computed] == tuple(opening.known[: opening.computed]), "another prefix"
            assert snapshot.trim or snapshot.length == opening.computed, "trimmed what cannot be trimmed"
        prompt = opening.known[: opening.prompt_length]
        text = text_of(prompt)
        script = self._script.for_prompt(text)
        if script.fault_after is not None and script.fault_at == "open":
            _fault()
        self._rows[opening.id] = _Row(
            opening=opening,
            script=script,
            tokens=list(opening.known),
            answer=scripts.answer(script, self._tokenizer, prompt, opening.sampling),
            crash_limit=script.crash_limit(text),
            computed=opening.computed,
        )

    def launch(self, batch: Batch) -> _Step:
        assert batch, "an empty batch"
        script = self._script
        both = {chunk.sequence for chunk in batch.chunks} & set(batch.decode)
        assert not both or (batch.fused and script.trim), "a row in both that is not alone, or cannot be"
        work = sum((self._prefill(chunk) for chunk in batch.chunks), NOTHING_READ)
        mishaps: list[Callable[[], None]] = []
        sampled = {id: self._decode(self._rows[id], mishaps) for id in batch.decode}
        further = {draft.sequence: self._verify(draft, sampled[draft.sequence], mishaps) for draft in batch.drafts}
        step_ms = max((self._rows[id].script.step_ms for id in batch.decode), default=0.0)
        prefill_seconds = work.tokens * script.prefill_ms_per_token / 1000
        self._free_at = max(self._free_at, time.monotonic()) + step_ms / 1000 + prefill_seconds
        result = StepResult(
            sampled, replace(work, seconds=prefill_seconds), further=further, decode_seconds=step_ms / 1000
        )
        return _Step(result, self._free_at, mishaps[0] if mishaps else None)

    def snapshot(self, sequence: int, length: int) -> FakeSnapshot | None:
        row = self._rows[sequence]
        assert 0 < length <= row.computed, "a snapshot of what is not computed"
        if not self._script.trim and length != row.computed:
            return None
        script = row.script
        if script.fault_after is not None and script.fault_at == "snapshot" and row.fresh >= script.fault_after:
            _fault()
        return FakeSnapshot(tuple(row.tokens[:length]), self._script.kv_bytes_per_token, self._script.trim)

    def close(self, sequence: int) -> None:
        self._rows.pop(sequence, None)

    def _prefill(self, chunk: Chunk) -> Reading:
        row = self._rows[chunk.sequence]
        end = chunk.start + len(chunk.tokens)
        assert not row.decodes, "a chunk after the last one"
        assert chunk.start == row.computed, "a gap or an overlap"
        assert list(chunk.tokens) == row.tokens[chunk.start : end], "other tokens than were opened"
        assert chunk.last == (end == len(row.tokens) - 1), "the last chunk leaves one token"
        row.computed, row.decodes = end, chunk.last
        return Reading(len(chunk.tokens), pairs(chunk.start, len(chunk.tokens)))

    def _decode(self, row: _Row, mishaps: list[Callable[[], None]]) -> Sampled:
        assert row.decodes and row.computed == len(row.tokens) - 1, "a row that is not ready to decode"
        script = row.script
        row.computed += 1
        row.fresh += 1
        token = row.next_token()
        row.tokens.append(token)
        if row.crash_limit is not None and row.fresh > row.crash_limit:
            mishaps.append(lambda: self._crash(script))
        if script.hang_after is not None and row.fresh > script.hang_after:
            mishaps.append(_hang)
        if script.fault_after is not None and row.fresh > script.fault_after:
            if script.fault_at == "launch":
                _fault()
            if script.fault_at == "wait":
                mishaps.append(_fault)
        wanted = row.opening.sampling.logprobs
        sampled = Sampled(token) if wanted is None else self._with_logprobs(token, wanted)
        scores = row.opening.rules.scores
        if scores is None or row.fresh > 1:
            return sampled
        first, *others = row.opening.known[: row.opening.prompt_length]
        told = (Sampled(first), *(self._with_logprobs(other, scores) for other in others))
        return replace(sampled, prompt=told)

    def _verify(self, draft: Draft, first: Sampled, mishaps: list[Callable[[], None]]) -> tuple[Sampled, ...]:
        row = self._rows[draft.sequence]
        assert list(draft.known) == row.tokens[:-1], "a draft made without knowing every token"
        said = [first]
        for guess in draft.tokens:
            if guess != said[-1].token:
                break
            said.append(self._decode(row, mishaps))
        return tuple(said[1:])

    def _with_logprobs(self, token: int, wanted: int) -> Sampled:
        others = (Candidate(300 + n, -1.0 - n) for n in range(wanted + 1) if 300 + n != token)
        top = (Candidate(token, -0.25), *others)[:wanted]
        return Sampled(token, -0.25, top)

    def _crash(self, script: Script) -> None:
        counter = self._path.with_name(self._path.name + ".crashes")
        if script.crash_times is not None:
            done = counter.stat().st_size if counter.exists() else 0
            if done >= script.crash_times:
                return
            with counter.open("ab") as file:
                file.write(b".")
        match script.crash_how:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
                _hang()
            case "abort":
                os.abort()
            case "exit":
                os._exit(3)
            case "exception":
                raise RuntimeError("the script asked for an exception")


def _hang() -> None:
    threading.Event().wait()


def _fault() -> None:
    raise EngineFault("the script asked for a device fault")
