"""What the next step computes: which sequences run, which rows decode, which prompt tokens go along.

Policy only: plain data in and out, no arrays, no clock. Sequences catch up from computed to known; whether that is
a new prompt, a prefix hit, a resumption or a recomputation makes no difference.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter

from appliance.engine.backend import Batch, Chunk, Draft, Opening, Sampled, Snapshot, StepResult
from appliance.engine.fairness import Shares
from appliance.engine.prefix_cache import NO_MATCH, Match, PrefixCache
from appliance.engine.room import Room
from appliance.engine.sequence import Sequence
from appliance.engine.sharing import awaits_leader, finds_leader
from appliance.engine.speculation import Speculation
from appliance.engine.speed import Pace
from appliance.vocab.spec import EngineSettings

GROWTH_TOKENS = 32
"""Room that each running sequence has to grow by when another begins, lest that is preempted again at once."""

FUSED_TOKENS = 48
"""The rest of a prompt that comes in one pass with its first token. With a longer one the weights that a pass more
reads cost little, and who comes meanwhile would wait.
"""

_rank = attrgetter("rank")


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: close, then open, then launch the batch (unless empty), then take the snapshots (id, length).

    `started` are the opened sequences that run for the first time.
    """

    closed: tuple[int, ...]
    opened: tuple[Opening, ...]
    started: tuple[Sequence, ...]
    batch: Batch
    snapshots: tuple[tuple[int, int], ...]

    def __bool__(self) -> bool:
        return bool(self.closed or self.opened or self.batch)

    @property
    def sequences(self) -> set[int]:
        """All it needs the device for."""
        batch = self.batch
        return {*batch.decode, *(c.sequence for c in batch.chunks), *(o.id for o in self.opened)}


class Scheduler:
    """Owns the sequences between submit and their end. Each launched plan is committed once, in order; the next
    plan may be made before that.
    """

    def __init__(
        self,
        settings: EngineSettings,
        kv_bytes_per_token: int,
        prefixes: PrefixCache,
        speculation: Speculation | None = None,
        *,
        room: Room | None = None,
        trims: bool = False,
    ) -> None:
        """Without a `room`, rows take what they hold. `trims`: a snapshot can be of less than was computed."""
        self._room = room or Room()
        self._trims = trims
        self.prefixes = prefixes
        self.speculation = speculation or Speculation(None, able=False)
        self._sequences: dict[int, Sequence] = {}
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._pace = Pace()
        self._shares = Shares()
        self.held = False
        """Whether nothing new may run, until all that runs has ended."""
        self.configure(settings, kv_bytes_per_token)

    def configure(self, settings: EngineSettings, token_bytes: int | None = None) -> None:
        """Live settings; rows over a smaller budget go one step later. `token_bytes`: of another KV store."""
        self.settings = settings
        self._room.configure(settings, token_bytes)
        self._rows = max(settings.concurrency, 1)
        self._stall_seconds = settings.stall_target
        self.context = min(settings.context, self._room.tokens)
        """Tokens one sequence may have at most: what is allowed, and what fits the budget when it is alone."""
        self.prefixes.resize(settings.prefix_bytes)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def charged_tokens(self) -> int:
        """What the running sequences take of the budget."""
        return self._room.charge(self._running)

    def submit(self, sequence: Sequence) -> None:
        assert sequence.id not in self._sequences
        self.speculation.begin(sequence)
        self._sequences[sequence.id] = sequence
        self._shares.arrive(sequence, self._waiting)
        insort(self._waiting, sequence, key=_rank)

    def remove(self, id: int) -> Sequence | None:
        """Forget a sequence that ended, failed or is not wanted any more; close it in the backend if it ran."""
        sequence = self._sequences.pop(id, None)
        if sequence is not None:
            self.speculation.end(sequence)
            self._shares.end(sequence)
            (self._running if sequence in self._running else self._waiting).remove(sequence)
        return sequence

    def next_batch(self) -> Plan:
        """The next step. Counts tokens of launched steps that are not committed yet as there."""
        closed = self._make_room()
        # What was preempted must not come straight back: this step makes the room for others.
        opened = () if closed else self._admit()
        started = tuple(s for s in self._running if not s.started) if opened else ()
        for sequence in started:
            sequence.started = True
        decode, drafts = self._decode_rows()
        groups = self._room.groups(self._sequences[id] for id in decode)
        held = self._held()
        chunks = self._chunks(self._pace.budget(self._stall_seconds, bool(decode)))
        for sequence in held:
            sequence.waited_tokens += sum(len(chunk.tokens) for chunk in chunks)
        decode = decode or self._fused(chunks)
        batch = Batch(decode, chunks, drafts, groups, self._stall_seconds)
        return Plan(closed, opened, started, batch, self._snapshots())

    def commit(self, batch: Batch, result: StepResult) -> list[tuple[Sequence, Sampled]]:
        """Take a step's tokens; sequences that ended since it was launched are passed over."""
        self._pace.read(result.prefill)
        self._pace.decoded(result.decode_seconds)
        for chunk in batch.chunks:
            if chunk.last and (read := self._sequences.get(chunk.sequence)) is not None:
                read.landed = True
        taken: list[tuple[Sequence, Sampled]] = []
        for id in batch.decode:
            sequence = self._sequences.get(id)
            if sequence is not None:
                sampled = result.sampled[id]
                sequence.pending -= 1
                sequence.known.append(sampled.token)
                self._shares.wrote(sequence, 1)
                taken.append((sequence, sampled))
        for draft in batch.drafts:
            taken += self._commit_draft(draft, result.further.get(draft.sequence, ()), result.unready)
        return taken

    def _commit_draft(
        self, draft: Draft, further: tuple[Sampled, ...], unready: frozenset[int]
    ) -> list[tuple[Sequence, Sampled]]:
        sequence = self._sequences.get(draft.sequence)
        if sequence is None:
            return []
        sequence.pending -= len(draft.tokens)
        sequence.known += [sampled.token for sampled in further]
        self._shares.wrote(sequence, len(further))
        if draft.sequence not in unready:
            self.speculation.learn(sequence, len(draft.tokens), len(further))
        return [(sequence, sampled) for sampled in further]

    def keep(self, id: int, length: int, snapshot: Snapshot | None) -> None:
        """A snapshot the plan asked for, of a step that is committed; None where the backend could not give it."""
        sequence = self._sequences.get(id)
        if sequence is None:
            return
        if length in sequence.taking:
            sequence.taking.remove(length)
        if snapshot is not None:
            self.prefixes.insert(sequence.known, snapshot, sequence.namespace)

    # ---- memory
    def _make_room(self) -> tuple[int, ...]:
        """Preempt the last in rank until each row left can grow by a token; else one that makes way. Their ids."""
        closed: list[int] = []
        while len(self._running) > 1 and not self._room.fits(self._running):
            closed.append(self._preempt(max(self._running, key=_rank)))
        if not closed and (last := self._makes_way()) is not None:
            closed.append(self._preempt(last))
        return tuple(closed)

    def _preempt(self, sequence: Sequence) -> int:
        """Have it recomputed later; its id."""
        self._running.remove(sequence)
        sequence.computed, sequence.decodes = 0, False
        if sequence.speaks:  # its first token told the prompt's scores
            sequence.rules = replace(sequence.rules, scores=None)
        sequence.due.clear()
        sequence.taking.clear()
        insort(self._waiting, sequence, key=_rank)
        return sequence.id

    def _makes_way(self) -> Sequence | None:
        """A running sequence that nobody waits for, where it keeps out the first one that somebody waits for."""
        if self.held or not self._waiting or not self._running:
            return None
        first, last = self._waiting[0], max(self._running, key=_rank)
        if first.pending or first.background or not last.background or awaits_leader(first, self._running):
            return None
        return None if len(self._running) < self._rows and self._fits(first) else last

    # ---- admission
    def _admit(self) -> tuple[Opening, ...]:
        opened: list[Opening] = []
        places = 0 if self.held else self._rows - len(self._running)
        for sequence in islice(self._shares.line(self._waiting), max(0, places)):
            if sequence.pending or not self._fits(sequence):
                break  # the first in line goes first, however small the others are
            if awaits_leader(sequence, self._running):
                continue
            if sequence.rules.scores is not None:  # every token of it has to be computed
                opened.append(self._open(sequence, NO_MATCH))
                continue
            match = self._match(sequence)
            if not (self.prefixes.enabled and finds_leader(sequence, match.length, self._running)):
                opened.append(self._open(sequence, match))
        return tuple(opened)

    def _fits(self, sequence: Sequence) -> bool:
        """Whether it may run now; one alone always may."""
        if not self._running:
            return True
        return self._room.fits((*self._running, sequence), GROWTH_TOKENS * len(self._running))

    def _match(self, sequence: Sequence) -> Match:
        """What is kept of it. Where that is rounded, one that was given up goes on from no more than it began with:
        its answer stays what it is.
        """
        rounded = self.settings.stored is not None and sequence.started
        known = sequence.known[: sequence.found.length + 1] if rounded else sequence.known
        return self.prefixes.match(known, sequence.namespace)

    def _open(self, sequence: Sequence, match: Match) -> Opening:
        self._waiting.remove(sequence)
        insort(self._running, sequence, key=_rank)
        sequence.computed = match.length
        if self.prefixes.enabled and match.length < sequence.prefill_end:
            borders = (length for length in sequence.checkpoints if match.length < length < sequence.prefill_end)
            sequence.due += [*borders, sequence.prefill_end]
        if not sequence.started:
            sequence.pipeline.cached_tokens = min(match.length, sequence.prompt_length)
            sequence.found = match._replace(snapshot=None)
            self._shares.begin(sequence, sequence.prefill_end - match.length)
        return Opening(
            id=sequence.id,
            known=tuple(sequence.known),
            computed=match.length,
            snapshot=match.snapshot,
            sampling=sequence.sampling,
            prompt_length=sequence.prompt_length,
            stop_ids=sequence.stop_ids,
            constraint=sequence.constraint,
            rules=sequence.rules,
            adapter=sequence.adapter,
        )

    # ---- the step
    def _decode_rows(self) -> tuple[tuple[int, ...], tuple[Draft, ...]]:
        rows = [s for s in self._running if s.decodes and len(s.known) + s.pending < s.limit]
        if self._postpones_first_tokens(rows):
            return (), ()
        drafts = self.speculation.drafts(rows) if self._speculates(rows) else ()
        if drafts is None:
            return (), ()
        for draft, sequence in zip(drafts, rows, strict=False):
            sequence.pending += len(draft.tokens)
        return self._decoding(rows), drafts

    def _decoding(self, rows: Iterable[Sequence]) -> tuple[int, ...]:
        """Have each say one token more; their ids."""
        for sequence in rows:
            sequence.pending += 1
            sequence.speaks = True
        return tuple(sequence.id for sequence in rows)

    def _speculates(self, rows: list[Sequence]) -> bool:
        """Steps that read prompts are worth more when they overlap than guesses are."""
        return 0 < len(rows) <= self.speculation.max_batch and all(s.decodes and s.landed for s in self._running)

    def _postpones_first_tokens(self, rows: list[Sequence]) -> bool:
        """Whether rows that have said nothing yet wait a little longer.

        They do until the step that ends their prompt has landed, since more prompts may come meanwhile. They also
        wait for prompts that came with them: without decode steps in between, a burst of prompts is read a quarter
        faster. That ends when as much as a step alone may read has gone before them.
        """
        if not rows or any(row.speaks for row in rows):
            return False
        if all(sequence.decodes for sequence in self._running):
            return not all(row.landed for row in rows)
        waited = max(row.waited_tokens for row in rows)
        return waited < self._pace.tokens(self._pace.budget(self._stall_seconds, decoding=False), start=0)

    def _fused(self, chunks: tuple[Chunk, ...]) -> tuple[int, ...]:
        """The one sequence there is, if its prompt ends with a chunk so short that its first token comes with it."""
        if len(self._running) > 1 or self._waiting or not chunks or not self._trims:
            return ()
        sequence, chunk = self._running[0], chunks[0]
        rest = chunk.last and chunk.start > 0 and 0 < len(chunk.tokens) <= FUSED_TOKENS
        return self._decoding((sequence,)) if rest and len(sequence.known) < sequence.limit else ()

    def _held(self) -> list[Sequence]:
        """Sequences whose prompt is read and that have said nothing yet."""
        return [s for s in self._running if s.decodes and not s.speaks]

    def _chunks(self, budget: float) -> tuple[Chunk, ...]:
        chunks: list[Chunk] = []
        for sequence in self._running:
            if sequence.decodes:
                continue
            start, end = sequence.computed, sequence.prefill_end
            work = self._pace.work(start, end - start)
            if start < end and (budget <= 0 or (chunks and work > 2 * budget)):
                break
            if not chunks:  # only the first is cut, others come whole if half of them fits: small parts take longer
                end = min(end, start + self._pace.tokens(budget, start))
            # A chunk ends where a snapshot is wanted: only there can every cache kind give one.
            end = min([end, *(length for length in sequence.due if length > start)])
            sequence.computed, budget = end, budget - self._pace.work(start, end - start)
            sequence.decodes = end == sequence.prefill_end
            chunks.append(Chunk(sequence.id, start, sequence.known[start:end], sequence.decodes))
        return tuple(chunks)

    def _snapshots(self) -> tuple[tuple[int, int], ...]:
        wanted: list[tuple[int, int]] = []
        for sequence in self._running:
            while sequence.due and sequence.due[0] <= sequence.computed:
                length = sequence.due.pop(0)
                sequence.taking.append(length)
                wanted.append((sequence.id, length))
        return tuple(wanted)
