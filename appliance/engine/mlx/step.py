"""A launched batch on its way: when its work begins, what of it is waited for, and how long the device took."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import mlx.core as mx

from appliance.engine.backend import Sampled, StepResult
from appliance.engine.mlx.batch import Row
from appliance.engine.mlx.load import on_cpu
from appliance.engine.mlx.prefill import compute
from appliance.engine.mlx.sampler import Choice
from appliance.engine.mlx.verify import Verification
from appliance.engine.speed import NOTHING_READ, Reading
from appliance.errors import EngineFault


@contextmanager
def device() -> Iterator[None]:
    """What MLX raises at work, whether for want of memory or for a kernel, is a failure of the device."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise EngineFault(f"the device failed: {error}") from error


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decode batch on its way."""

    rows: Sequence[Row]
    choice: Choice | Verification

    def further(self) -> dict[int, tuple[Sampled, ...]]:
        """After its tokens were read: those after each row's first."""
        if isinstance(self.choice, Choice):
            return {}
        return dict(zip((row.id for row in self.rows), self.choice.further(), strict=True))


class MlxStep:
    """A launched batch: its tokens are waited for; chunks beside them run while those are sent, and are timed.

    A GPU takes work at once, so it begins at launch. The CPU backend queues few operations: there, handing
    work over takes as long as the work. So on a CPU decoding begins when the tokens before it are sent, and chunks
    beside it with the next step, when its own tokens are.
    """

    def __init__(
        self,
        decoded: list[Decoded],
        chunks: list[object],
        work: Reading,
        before: "MlxStep | None",
        unready: frozenset[int],
        fused: bool,
    ) -> None:
        """`fused`: what it read of a prompt comes in one pass with what it decodes; neither is timed, since it tells
        nothing of chunks or of rows alone.
        """
        self._decoded = decoded
        self._chunks = chunks
        self._work = work
        self._unready = unready
        self._fused = fused
        self._before = before
        self._free_since = self._decodes_since = time.perf_counter()
        self._prefilled = NOTHING_READ
        self._failure: RuntimeError | MemoryError | None = None
        self._along: list[object] | None = []  # None once handed over
        self.waited = False
        if not on_cpu():
            self._decode()
            compute(self._chunks)

    def begin(self) -> None:
        """Start computing, where launching did not."""
        if on_cpu():
            try:
                if self._before is not None:
                    self._before.finish()
                self._decodes_since = time.perf_counter()
                self._decode()
            except (RuntimeError, MemoryError) as error:
                self._failure = error

    def take_along(self, state: list[object]) -> bool:
        """Compute this with the chunks, unless there are none to wait for or it is too late for that."""
        if self._along is None or not self._work.tokens:
            return False
        self._along.append(state)
        return True

    def wait(self) -> StepResult:
        """Raises EngineFault if the device failed: then this step leaves nothing to the next one."""
        try:
            with device():
                return self._wait()
        except EngineFault:
            self._chunks, self._along = [], None
            raise
        finally:
            self._before, self.waited = None, True

    def _wait(self) -> StepResult:
        if self._failure is not None:
            raise self._failure
        earlier = self._before.finish() if self._before is not None else NOTHING_READ
        if self._before is not None and not on_cpu():
            self._free_since = self._decodes_since = max(self._free_since, self._before._free_since)
        sampled = self._sampled()
        decode_seconds = self._free_since - self._decodes_since if sampled and not self._fused else 0.0
        own = NOTHING_READ if self._decoded else self.finish()
        further = {id: more for decoded in self._decoded for id, more in decoded.further().items()}
        return StepResult(sampled, earlier + own, self._failed(), further, decode_seconds, self._unready)

    def finish(self) -> Reading:
        """Compute the chunks to their end: what they were, and the seconds the device took for them."""
        if self._along is not None:
            started = time.perf_counter() if on_cpu() else self._free_since
            compute(self._chunks)
            mx.eval(self._chunks, self._along)
            if self._chunks and self._work.tokens:
                self._free_since = time.perf_counter()
                self._prefilled = replace(self._work, seconds=self._free_since - started)
            self._chunks, self._along = [], None
        return self._prefilled

    def _decode(self) -> None:
        for decoded in self._decoded:
            mx.async_eval(decoded.choice.arrays())

    def _failed(self) -> dict[int, str]:
        return {
            decoded.rows[place].id: reason
            for decoded in self._decoded
            for place, reason in decoded.choice.errors().items()
        }

    def _sampled(self) -> dict[int, Sampled]:
        out: dict[int, Sampled] = {}
        for decoded in self._decoded:
            read = zip(decoded.rows, decoded.choice.read(), strict=True)
            out.update((row.id, _with_prompt(row, sampled)) for row, sampled in read)
        if out:
            self._free_since = time.perf_counter()
        return out


def _with_prompt(row: Row, sampled: Sampled) -> Sampled:
    """The first token of a row whose prompt was scored brings that along."""
    if row.scores is None:
        return sampled
    scores, row.scores = row.scores, None
    prompt = (Sampled(row.sample.known[0]), *(each for part in scores for each in part.read()))
    return replace(sampled, prompt=prompt[: row.sample.prompt_length])
