"""The Backend on MLX: one row per sequence, prompt chunks one by one, decode rows in one batch."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import mlx.core as mx

from appliance import log
from appliance.engine.adapter import Targets
from appliance.engine.backend import Batch, Chunk, Draft, Opening, Snapshot
from appliance.engine.drafting import OPEN
from appliance.engine.mlx import cpu, kv
from appliance.engine.mlx.adapters import Adapters
from appliance.engine.mlx.batch import Decoding, Row
from appliance.engine.mlx.decodings import Decodings, alike
from appliance.engine.mlx.draft_model import load_draft_model
from appliance.engine.mlx.experts import experts
from appliance.engine.mlx.head import Head
from appliance.engine.mlx.kv_store import KVStore
from appliance.engine.mlx.load import Loaded, Progress, load, on_cpu, without_compile_where_it_fails
from appliance.engine.mlx.masking import MaskWorkshop
from appliance.engine.mlx.prefill import Piece, parted, prefill
from appliance.engine.mlx.probe import refuses_batches
from appliance.engine.mlx.prompt import PromptTokenizer
from appliance.engine.mlx.quirks import why_alone
from appliance.engine.mlx.reading import bare, context_of
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.mlx.step import Decoded, MlxStep, device
from appliance.engine.mlx.store import KVFreezer
from appliance.engine.speed import NOTHING_READ, Reading, pairs
from appliance.vocab.spec import EngineSettings, EngineSpec, ModelInfo


class MlxBackend:
    """See `appliance.engine.backend.Backend`; all methods on one thread, since MLX streams belong to theirs."""

    def load(
        self, spec: EngineSpec, settings: EngineSettings, progress: Progress
    ) -> tuple[ModelInfo, PromptTokenizer]:
        """Raises LoadFailed."""
        if spec.tokenizer_only:
            return bare(spec)
        if reason := without_compile_where_it_fails():
            log.get().info("engine.compile_off", reason=reason)
        if on_cpu():
            cpu.install(compiled=not reason)
        # The tokenizer touches no device, so the weights need not wait for it.
        with ThreadPoolExecutor(1, "tokenizer") as beside:
            reading = beside.submit(PromptTokenizer, Path(spec.path), spec.trust_remote_code)
            loaded = load(spec, progress)
            tokenizer = reading.result()
        self._freezer = KVFreezer(Path(spec.path), loaded.dtype)
        self._model = loaded.model
        self._store = KVStore(loaded.model, loaded.config, spec.max_kv)
        self._vocabulary, caches = self._store.vocabulary, self._store.warm
        self._batching, self._unbatched = self._how_batched(caches)
        self._rows: dict[int, Row] = {}
        self._workshop = MaskWorkshop()
        self._adapters = Adapters(loaded.model)
        self._head = Head(loaded.model, self._vocabulary)
        self._adapters.keep(settings.adapters)
        self._decodings = Decodings(
            lambda adapter: Decoding(self._adapters.forward(adapter), self._vocabulary, self._workshop),
            self._store,
            shared=self._batching is not kv.Batching.NONE,
        )
        self._last: MlxStep | None = None
        self._draft_model = load_draft_model(spec, tokenizer, self._vocabulary, self._workshop, progress)
        self.configure(settings)
        return self._info(loaded, caches, spec.speculative is not None), tokenizer

    def configure(self, settings: EngineSettings) -> int:
        """The form of keys and values from now on, while no sequence is open; bytes a token takes.

        Raises LoadFailed, permanent, for a form that this model's caches cannot have.
        """
        self._store.configure(settings)
        self._freezer.form = f"kv={settings.kv} stored={settings.stored}"
        self._freezer.packed_from = settings.kv.from_token if settings.kv is not None else 0
        small = self._draft_model
        return self._store.token_bytes + (small.bytes_per_token() if small else 0)

    def targets(self) -> Targets:
        """The layers an adapter may change."""
        return self._adapters.targets()

    def keep_adapters(self, directories: Sequence[str]) -> None:
        """See Backend."""
        self._adapters.keep(directories)

    def adapter_bytes(self) -> int:
        """See Backend."""
        return self._adapters.bytes

    def held_bytes(self) -> int:
        """See Backend: of every cache there is, each counted once."""
        lists = [row.caches or [] for row in self._rows.values()]
        lists += self._decodings.caches
        if self._draft_model is not None:
            lists.append(self._draft_model.caches)
        return kv.nbytes(list({id(cache): cache for caches in lists for cache in caches}.values()))

    def freezer(self) -> KVFreezer:
        """What writes down the snapshots of this model."""
        return self._freezer

    @device()
    def open(self, opening: Opening) -> None:
        """Own caches, filled from the snapshot where there is one."""
        sample = SampleRow(
            opening.sampling,
            opening.known,
            opening.prompt_length,
            opening.stop_ids,
            answered=len(opening.known) - opening.prompt_length,
            matcher=opening.constraint and opening.constraint.start(opening.known[opening.prompt_length :]),
            rules=opening.rules,
        )
        newest = mx.array([opening.known[-1]], dtype=mx.int32)
        caches, packs = self._store.open(opening)
        scores = None if opening.rules.scores is None else []
        adapter = self._adapted(opening)
        self._rows[opening.id] = Row(opening.id, sample, caches, opening.computed, newest, packs, adapter, scores)

    def _adapted(self, opening: Opening) -> str:
        """The name of its adapter, which is there from now on."""
        return "" if opening.adapter is None else self._adapters.open(opening.adapter)

    @device()
    def launch(self, batch: Batch) -> MlxStep:
        """Decode rows first, so that running streams wait for no chunk of this step."""
        rows = [self._rows[id] for id in batch.decode]
        self._unready: set[int] = set()
        if (chunk := batch.fused) is not None:
            decoded, chunks = self._read_and_answer(rows[0], chunk), []
        else:
            self._decodings.place(rows, batch.groups)
            if batch.drafts and all(self._decodings.of(row).rolls_back(row) for row in rows):
                decoded = self._verify(rows, batch.drafts, batch.guess_seconds)
            else:
                decoded = self._decode(rows)
            chunks = self._prefill(batch.chunks)
        read = (each for each in batch.chunks if self._rows[each.sequence].scores is None)
        work = sum((Reading(len(each.tokens), pairs(each.start, len(each.tokens))) for each in read), NOTHING_READ)
        before = None if self._last is None or self._last.waited else self._last
        self._last = MlxStep(decoded, chunks, work, before, frozenset(self._unready), fused=chunk is not None)
        return self._last

    @device()
    def snapshot(self, sequence: int, length: int) -> Snapshot | None:
        """Lazy: the copy is made with the step launched last, whose chunk it may need."""
        row = self._rows[sequence]
        stored = self._decodings.of(row).snapshot(row, length)
        if stored is not None:
            stored = self._store.keep(stored, row.packed)
        if stored is not None:
            state = [cache.state for cache in stored.caches]
            if self._last is None or not self._last.take_along(state):
                mx.async_eval(state)
        return stored

    def close(self, sequence: int) -> None:
        """Unknown sequences are ignored."""
        row = self._rows.pop(sequence, None)
        if row is not None:
            self._decodings.drop(row)
            self._adapters.close(row.adapter)
            if self._draft_model is not None:
                self._draft_model.forget(sequence)

    def _read_and_answer(self, row: Row, chunk: Chunk) -> list[Decoded]:
        """The rest of a prompt and the first token behind it, in one pass where all of it is held in one form."""
        self._decodings.place([row], ())
        exact = None if row.packed else self._store.exact_tokens(row.computed)
        if row.scores is not None or (exact is not None and exact <= len(chunk.tokens)):
            self._prefill((chunk,))
            self._decodings.place([row], ())
            return self._decode([row])
        with self._head.last_only():
            return [Decoded(*self._decodings.of(row).begin(row, chunk.tokens))]

    def _prefill(self, chunks: Sequence[Chunk]) -> list[object]:
        return [
            state
            for pieces in self._parted(chunks)
            for rows in alike(row for row, _ in pieces)
            for state in prefill(
                self._adapters.forward(rows[0].adapter),
                [piece for piece in pieces if piece[0] in rows],
                self._batching,
            )
        ]

    def _decode(self, rows: list[Row]) -> list[Decoded]:
        together = self._decodings.together(rows)
        return [Decoded(*self._decodings.of(rows[0]).step(rows)) for rows in together]

    def _parted(self, chunks: Sequence[Chunk]) -> Iterator[list[Piece]]:
        """Up to where rows are packed, then the rest: what is yielded is launched before the next is asked for."""
        left = [(self._rows[chunk.sequence], chunk) for chunk in chunks]
        while left:
            assert all(row.computed == chunk.start for row, chunk in left)
            now: list[Piece] = []
            later: list[Piece] = []
            for row, chunk in left:
                self._decodings.pack(row)
                first, rest = parted(chunk, None if row.packed else self._store.exact_tokens(row.computed))
                now.append((row, first))
                later += [(row, rest)] if rest is not None else []
            yield now
            left = later

    def _verify(self, rows: list[Row], drafts: Sequence[Draft], seconds: float) -> list[Decoded]:
        if self._draft_model is not None:
            self._draft_model.begin(seconds)
        filled = {self._rows[draft.sequence]: self._filled(self._rows[draft.sequence], draft) for draft in drafts}
        return [
            Decoded(*self._decodings.of(rows[0]).verify([(row, filled[row]) for row in rows]))
            for rows in self._decodings.together(filled)
        ]

    def _filled(self, row: Row, draft: Draft) -> Draft:
        if self._draft_model is not None and OPEN in draft.tokens:
            guesses = self._draft_model.guess(row.sample, draft)
            if guesses is None:
                self._unready.add(row.id)
            draft = replace(draft, tokens=guesses or ())
        if not row.packed and (exact := self._store.exact_tokens(row.computed)) is not None:
            draft = replace(draft, tokens=draft.tokens[: exact - 1])
        if (matcher := row.sample.matcher) is not None and draft.tokens:
            draft = replace(draft, tokens=draft.tokens[: matcher.allowed(draft.tokens)])
        return draft

    def _how_batched(self, caches: kv.Caches) -> tuple[kv.Batching, str]:
        """What these caches and the model's own code allow, and why no more."""
        found = kv.batching(caches)
        if found is kv.Batching.NONE:
            return found, f"{kv.kinds(caches)} cannot be batched"
        if (why := why_alone(self._model)) is not None:
            return kv.Batching.NONE, why
        why = refuses_batches(self._model, caches)
        return (found, "") if why is None else (kv.Batching.NONE, f"its own code takes one row at a time ({why})")

    def _notes(self, caches: kv.Caches, guesses: bool) -> tuple[str, ...]:
        """What this model's caches do not allow."""
        notes = []
        if self._batching is kv.Batching.NONE:
            notes.append(f"decodes one sequence at a time: {self._unbatched}")
        if guesses and not kv.rolls_back(caches):
            notes.append(f"decodes without guesses: {kv.kinds(caches)} cannot be cut back to before a wrong one")
        return tuple(notes)

    def _info(self, loaded: Loaded, caches: kv.Caches, guesses: bool) -> ModelInfo:
        notes = self._notes(caches, guesses)
        for note in notes:
            log.get().warning("engine.limited", reason=note)
        small = self._draft_model
        expert_bytes, expert_share = experts(loaded.model, loaded.config)
        return ModelInfo(
            context=context_of(loaded.config),
            vocab_size=self._vocabulary,
            weight_bytes=loaded.weight_bytes + (small.weight_bytes if small else 0),
            kv_bytes_per_token=self._store.token_bytes + (small.bytes_per_token() if small else 0),
            dtype=loaded.dtype,
            load_seconds=loaded.seconds,
            notes=notes,
            trims=kv.rolls_back(caches),
            padded=self._batching is not kv.Batching.NONE,
            pass_bytes=loaded.weight_bytes - expert_bytes,
            expert_bytes=expert_bytes,
            expert_share=expert_share,
        )
