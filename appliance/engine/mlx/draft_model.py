"""Guesses with a small model: which one may, and what it says next in each sequence."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from msgspec import structs

from appliance.engine.backend import Draft
from appliance.engine.mlx import kv
from appliance.engine.mlx.load import Loaded, Progress, load
from appliance.engine.mlx.masking import MaskWorkshop
from appliance.engine.mlx.prompt import PromptTokenizer
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.mlx.sampler import Sampler
from appliance.engine.speed import Pace, Reading, pairs
from appliance.errors import LoadFailed
from appliance.vocab.spec import EngineSpec


@dataclass(slots=True)
class _Held:
    """What the small model has computed of a sequence: `tokens` are in `caches`, the first `sure` of them known."""

    caches: kv.Caches
    tokens: list[int] = field(default_factory=list)
    sure: int = 0


class DraftModel:
    """`vocabulary` is that of the large model: no other token is guessed."""

    def __init__(self, loaded: Loaded, vocabulary: int, workshop: MaskWorkshop) -> None:
        self.weight_bytes = loaded.weight_bytes
        self._model: nn.Module = loaded.model
        self._vocabulary = vocabulary
        self._workshop = workshop
        self._held: dict[int, _Held] = {}
        self._warm = kv.fresh(self._model)
        self._pace = Pace()
        self._budget = 0.0

    @property
    def caches(self) -> kv.Caches:
        """Those of all sequences."""
        return [cache for held in self._held.values() for cache in held.caches]

    def bytes_per_token(self) -> int:
        """Of keys and values."""
        return kv.bytes_per_token(self._warm)

    def check(self, name: str) -> None:
        """Raises LoadFailed where what it guessed wrong cannot be taken back."""
        mx.eval(self._model(mx.array([[0, 0]], dtype=mx.int32), cache=self._warm))
        if not kv.rolls_back(self._warm):
            raise LoadFailed(
                f"{name} cannot draft: its {kv.kinds(self._warm)} cannot be cut back; choose a model with plain"
                " attention, or `speculative.kind: lookup`",
                permanent=True,
            )

    def begin(self, stall_seconds: float) -> None:
        """A step, in which prompts are read for about so long."""
        self._budget = self._pace.budget(stall_seconds, decoding=True)

    def guess(self, sample: SampleRow, draft: Draft) -> tuple[int, ...] | None:
        """As many tokens as the draft asks for, drawn as the sequence's own would be: with the same chance at the
        same position, two models that nearly agree draw the same token. None while there is more to read than one
        step takes.
        """
        held = self._held.get(draft.sequence)
        if held is None:
            held = self._held[draft.sequence] = _Held(kv.fresh(self._model))
        known = draft.known
        logits = self._catch_up(held, known)
        if logits is None:
            return None
        row = _as_drawn(sample, known)
        sampler = Sampler([row], self._vocabulary, self._workshop)
        said: list[mx.array] = []
        for _ in draft.tokens:
            said.append(sampler.sample(logits).settle())
            if len(said) < len(draft.tokens):
                logits = self._forward(held, said[-1][None])
        guesses = tuple(mx.concatenate(said).tolist())
        held.tokens = [*known, *guesses[:-1]]
        return guesses

    def forget(self, sequence: int) -> None:
        self._held.pop(sequence, None)

    def _catch_up(self, held: _Held, known: Sequence[int]) -> mx.array | None:
        """Take back guesses that were wrong, compute what is new, as far as this step may: the logits after the last
        known token.
        """
        same = held.sure
        while same < min(len(held.tokens), len(known) - 1) and held.tokens[same] == known[same]:
            same += 1
        if extra := len(held.tokens) - same:
            kv.roll_back(held.caches, [extra])
        kv.grow_by_parts(held.caches, len(known))
        end = min(len(known), same + self._pace.tokens(self._budget, same))
        logits = self._read(held, known, same, end)
        held.tokens, held.sure = list(known[:end]), end
        return logits if end == len(known) else None

    def _read(self, held: _Held, known: Sequence[int], start: int, end: int) -> mx.array:
        begun = time.perf_counter()
        logits = self._forward(held, mx.array([known[start:end]], dtype=mx.int32))
        mx.eval([cache.state for cache in held.caches])
        self._pace.read(Reading(end - start, pairs(start, end - start), time.perf_counter() - begun))
        self._budget -= self._pace.work(start, end - start)
        return logits

    def _forward(self, held: _Held, tokens: mx.array) -> mx.array:
        logits: mx.array = self._model(tokens, cache=held.caches)
        return logits[:, -1, : self._vocabulary]


def _as_drawn(sample: SampleRow, known: Sequence[int]) -> SampleRow:
    """The row after its known tokens; nobody asks for a guess's log-probabilities."""
    sampling = structs.replace(sample.sampling, logprobs=None)
    return replace(sample, sampling=sampling, known=known, answered=len(known) - sample.prompt_length, matcher=None)


def load_draft_model(
    spec: EngineSpec, tokenizer: PromptTokenizer, vocabulary: int, workshop: MaskWorkshop, progress: Progress
) -> DraftModel | None:
    """The small model a spec names, if it does. Raises LoadFailed where it cannot guess for the large one."""
    speculative, large = spec.speculative, Path(spec.path).name
    if speculative is None or speculative.kind in ("lookup", "suffix"):
        return None
    if speculative.kind == "mtp":
        raise LoadFailed(
            f"{large}: its own extra heads cannot be used: mlx-lm {version('mlx-lm')} leaves them out of"
            f" {_model_type(Path(spec.path))}; choose `speculative.kind: lookup`, `suffix` or `draft`",
            permanent=True,
        )
    small = EngineSpec(backend="mlx", path=speculative.draft, dtype=spec.dtype)
    name = Path(small.path).name
    if PromptTokenizer(Path(small.path), False).vocabulary() != tokenizer.vocabulary():
        raise LoadFailed(
            f"{name} cannot draft for {large}: their tokenizers differ, so its tokens mean something else; choose a"
            " smaller model of the same family",
            permanent=True,
        )
    model = DraftModel(load(small, progress), vocabulary, workshop)
    model.check(name)
    return model


def _model_type(directory: Path) -> str:
    """A checkpoint's architecture, which was read before this."""
    return str(json.loads((directory / "config.json").read_text(encoding="utf-8")).get("model_type", "this family"))
