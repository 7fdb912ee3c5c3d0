"""Rows that decode together: which caches they share, who joins, who leaves, one forward pass for all."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from appliance.engine.backend import Draft
from appliance.engine.mlx.adapters import Forward
from appliance.engine.mlx.kv import Caches, KVSnapshot, copy_by_layers, grow_by_parts, roll_back, rolls_back, snapshot
from appliance.engine.mlx.masking import MaskWorkshop
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.mlx.sampler import Choice, Sampler
from appliance.engine.mlx.scores import Scores
from appliance.engine.mlx.verify import Verification, layout

NARROW_AT = 64
"""Columns that are padding for all rows of a batch, which guesses that went wrong leave behind."""


@dataclass(eq=False, slots=True)
class Row:
    """One sequence on the device. `caches` are its own while it stands alone, None while it is in a shared batch.

    `computed` counts the tokens in its caches, launched ones included; `newest` (1,) is its next input; `packed`:
    its keys and values are in fewer bits. `scores` are those of its prompt where they are wanted and not yet told.
    `group` is the scheduler's; `sampler` counted its tokens in the batch it left.
    """

    id: int
    sample: SampleRow
    caches: Caches | None
    computed: int
    newest: mx.array
    packed: bool = False
    adapter: str = ""
    scores: list[Scores] | None = None
    group: int = 0
    sampler: Sampler | None = None


class Decoding:
    """The decode batch. One row keeps its own caches, without padding or mask; more share a left-padded rectangle."""

    def __init__(self, model: Forward, vocabulary: int, workshop: MaskWorkshop) -> None:
        self._model = model
        self._workshop = workshop
        self._vocabulary = vocabulary
        self._rows: list[Row] = []
        self._gone: set[Row] = set()
        self._caches: Caches = []
        self._tokens: mx.array | None = None  # (B,): the rows' next inputs, perhaps not yet computed
        self._sampler: Sampler | None = None
        self._counted: list[Sampler] = []  # of rows that have joined since the sampler was made
        self._unsettled: Choice | Verification | None = None
        self._stale = True  # the sampler's rows are not ours any more

    def step(self, rows: Sequence[Row]) -> tuple[list[Row], Choice]:
        """One more token for exactly these rows, not yet computed; the rows in the order of the choice."""
        self.settle()
        self._become(rows)
        assert self._sampler is not None and self._tokens is not None
        logits = self._model(self._tokens[:, None], cache=self._caches)[:, -1]
        choice = self._sampler.sample(logits)
        self._unsettled = choice
        for row in self._rows:
            row.computed += 1
        return list(self._rows), choice

    def begin(self, row: Row, tokens: Sequence[int]) -> tuple[list[Row], Choice]:
        """The last tokens of a prompt and the one behind it in one pass, not yet computed."""
        self.settle()
        self._become([row])
        assert self._sampler is not None and self._tokens is not None
        inputs = mx.concatenate([mx.array(tokens, dtype=mx.int32), self._tokens])
        choice = self._sampler.sample(self._model(inputs[None], cache=self._caches)[:, -1])
        self._unsettled = choice
        row.computed += len(tokens) + 1
        return [row], choice

    def verify(self, drafts: Sequence[tuple[Row, Draft]]) -> tuple[list[Row], Verification]:
        """All guesses of these rows in one pass, not yet computed; the rows in the order of the verification."""
        self.settle()
        self._gather([row for row, _ in drafts])
        by_row = dict(drafts)
        guessed = layout([(row.sample, by_row[row]) for row in self._rows])
        grow_by_parts(self._caches, max(row.computed for row in self._rows) + guessed.width)
        logits = self._model(guessed.inputs, cache=self._caches)
        choice = Sampler(guessed.rows, self._vocabulary, self._workshop).sample(guessed.flat(logits))
        rows, caches = list(self._rows), self._caches
        self._stale = True  # what its sampler counted knows nothing of the tokens that come now
        self._sampler, self._counted = None, []
        self._unsettled = verification = Verification(
            guessed, choice, lambda said: _verified(rows, caches, guessed.width, said)
        )
        return rows, verification

    def rolls_back(self, row: Row) -> bool:
        """Whether it can be verified: what it is guessed wrong can be taken back."""
        return rolls_back(self._caches if row.caches is None else row.caches)

    def drop(self, row: Row) -> None:
        """Let a row go that will not come back. Its place in the rectangle goes with the next step, for all that left
        meanwhile at once, or with the last row.
        """
        if row in self._rows:
            self._gone.add(row)
            if len(self._gone) == len(self._rows):
                self._unsettled = None
                self._keep([])

    @property
    def empty(self) -> bool:
        return not self._rows

    @property
    def caches(self) -> Caches:
        """Those its rows share now, or the only row's own."""
        return self._caches

    def release(self, rows: Sequence[Row]) -> None:
        """Let rows go that come back elsewhere: they have caches of their own again."""
        if any(row in self._rows for row in rows):
            self.settle()
            self._gather([row for row in self._rows if row not in rows and row not in self._gone])

    def snapshot(self, row: Row, length: int) -> KVSnapshot | None:
        """A copy of a row's first `length` tokens, where its caches can give that."""
        caches = self._extract(row) if row.caches is None else row.caches
        return snapshot(caches, row.computed, length)

    def settle(self) -> None:
        """The last choice must be final before its tokens are an input, or its rows change places."""
        if self._unsettled is not None:
            self._tokens = self._unsettled.settle()
            self._unsettled = None

    def _become(self, rows: Sequence[Row]) -> None:
        self._gather(rows)
        if self._stale:
            grow_by_parts(self._caches, max(row.computed for row in self._rows))
            before = [*([self._sampler] if self._sampler else []), *self._counted]
            self._sampler = Sampler([row.sample for row in self._rows], self._vocabulary, self._workshop, before)
            self._stale, self._counted = False, []

    def _gather(self, rows: Sequence[Row]) -> None:
        wanted = set(rows)
        if wanted != set(self._rows):
            self._park([row for row in self._rows if row not in wanted and row not in self._gone])
            self._keep([row for row in self._rows if row in wanted])
            self._join([row for row in rows if row not in self._rows])
            if len(self._rows) > 1:
                copy_by_layers(self._caches)
            self._stale = True

    def _park(self, leaving: list[Row]) -> None:
        """Give rows that skip a step caches of their own again; lazily, so it costs nothing if nobody reads them."""
        for row in leaving:
            place = self._rows.index(row)
            row.newest = self._tokens[place : place + 1]  # type: ignore[index]
            row.caches = row.caches or self._extract(row)
            row.sampler = self._sampler

    def _keep(self, staying: list[Row]) -> None:
        self._gone.clear()
        if len(staying) == len(self._rows):
            return
        if not staying:
            self._rows, self._caches, self._tokens, self._sampler = [], [], None, None
            return
        index = mx.array([self._rows.index(row) for row in staying])
        for cache in self._caches:
            cache.filter(index)
        self._tokens = self._tokens[index]  # type: ignore[index]
        self._rows = staying

    def _join(self, joining: list[Row]) -> None:
        if not joining:
            return
        newest = [row.newest for row in joining]
        self._tokens = mx.concatenate(newest if self._tokens is None else [self._tokens, *newest])
        if not self._rows and len(joining) == 1:
            self._caches = joining[0].caches or []
        else:
            self._merge(joining)
        self._rows = [*self._rows, *joining]
        for row in joining:
            if row.sampler is not None:
                self._counted.append(row.sampler)
                row.sampler = None

    def _merge(self, joining: list[Row]) -> None:
        alone = [row for row in self._rows if row.caches is not None]
        together = merged([*alone, *joining])
        if self._rows and not alone:
            for ours, theirs in zip(self._caches, together, strict=True):
                ours.extend(theirs)
        else:
            self._caches = together
        for row in [*alone, *joining]:
            row.caches = None

    def _extract(self, row: Row) -> Caches:
        place = self._rows.index(row)
        return [cache.extract(place) for cache in self._caches]


def _verified(rows: list[Row], caches: Caches, width: int, said: list[int]) -> None:
    """The rows said so many tokens, out of a pass of `width`. They may have left meanwhile, and their caches with
    them.
    """
    roll_back(caches, [width - tokens for tokens in said])
    for row, tokens in zip(rows, said, strict=True):
        row.computed += tokens
    if len(rows) > 1 and caches[0].size() - max(row.computed for row in rows) > NARROW_AT:
        for cache in caches:
            cache.filter(mx.arange(len(rows)))  # which gives back what is padding for all


def merged(rows: Sequence[Row]) -> Caches:
    """One left-padded batch cache per layer, holding copies of what the rows' own caches hold."""
    layers = zip(*(row.caches for row in rows if row.caches is not None), strict=True)
    return [layer[0].merge(list(layer)) for layer in layers]
