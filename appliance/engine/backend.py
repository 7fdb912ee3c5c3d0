"""What the step loop needs from whatever runs the model: plain data in, sampled tokens out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from appliance.engine.adapter import Adapter, Targets
from appliance.engine.constraint import Constraint
from appliance.engine.disk_entry import Frozen
from appliance.engine.rules import NO_RULES, Rules
from appliance.engine.speed import NOTHING_READ, Reading
from appliance.text.rendering import Renderer
from appliance.vocab.request import Sampling
from appliance.vocab.spec import ChatPrompt, DiskSettings, EngineSettings, EngineSpec, ModelInfo


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt tokens to compute for one sequence: `tokens` stand at positions start, start+1, …

    After the `last` chunk every known token but one is computed, and the sequence decodes from the next batch on:
    its last known token is the first input of its first decode step. Every sequence gets exactly one `last` chunk
    after `open`; its `tokens` are empty where nothing is left to compute (a one-token prompt, an exact prefix hit).
    """

    sequence: int
    start: int
    tokens: Sequence[int]
    last: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """What a decode row may say next: it gets all of `tokens` that it would have said, and one more. `known` are all
    tokens it has: none is pending. Where a token is OPEN (see drafting) the backend makes the guesses itself.
    """

    sequence: int
    known: Sequence[int]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """One step. `decode` are the sequences that each get one token, with `drafts` one at least.

    A sequence may be in both only alone, with its last chunk: that and its first token are computed in one pass.
    """

    decode: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    drafts: tuple[Draft, ...] = ()
    """For each of `decode`, in order, or for none."""
    groups: tuple[int, ...] = ()
    """For each of `decode`: rows of one number are computed together, others apart. Where there are none, all are."""
    guess_seconds: float = float("inf")
    """How long the backend may read prompts before it guesses; what is left it reads in the steps that follow."""

    def __bool__(self) -> bool:
        """Whether there is anything to compute."""
        return bool(self.decode or self.chunks)

    @property
    def fused(self) -> Chunk | None:
        """The last chunk of the one sequence that gets its first token in the same pass."""
        return self.chunks[0] if self.chunks and self.decode == (self.chunks[0].sequence,) else None


@dataclass(frozen=True, slots=True)
class Candidate:
    token: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """The token a row got; `logprob` and `top` only where the sequence asked for them. Where the prompt is scored its
    tokens come with the first one, as `prompt`; of those the `rank` is known, 1 for the likeliest of all.
    """

    token: int
    logprob: float | None = None
    top: tuple[Candidate, ...] = ()
    prompt: "tuple[Sampled, ...]" = ()
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a batch produced, by sequence, what is known by now of the time that chunks took, and which sequences
    cannot go on, with the reason: the last token of those stands for none. `further` are the tokens after the first
    that drafts brought.
    """

    sampled: dict[int, Sampled]
    prefill: Reading = NOTHING_READ
    failed: dict[int, str] = field(default_factory=dict)
    further: dict[int, tuple[Sampled, ...]] = field(default_factory=dict)
    decode_seconds: float = 0.0
    """What the decode rows alone took, drafts included."""
    unready: frozenset[int] = frozenset()
    """Sequences of which the backend could not make the guesses it was asked for yet."""


class Snapshot(Protocol):
    """Keys and values of a prefix, owned by the prefix cache; never aliases live state."""

    @property
    def nbytes(self) -> int: ...

    @property
    def length(self) -> int:
        """Tokens it covers."""
        ...

    @property
    def shortest(self) -> int:
        """The shortest prefix it can be cut to: 0 is any, its own length none."""
        ...


class Step(Protocol):
    """A batch on its way."""

    def begin(self) -> None:
        """Start computing, where launching did not already: called once the step before has been waited for and its
        tokens are sent, by a loop that has nothing else to do. Raises nothing; a failure comes out of `wait`.
        """
        ...

    def wait(self) -> StepResult:
        """Block until it is computed. Raises EngineFault if the device failed."""
        ...


@dataclass(frozen=True, slots=True)
class Opening:
    """A sequence as the backend sees it. `known` are prompt and emitted tokens; the first `computed` of them
    come from `snapshot` (trimmed to that length), at least one is always left to compute.
    `prompt_length` marks where the answer begins: penalties count from there.
    """

    id: int
    known: Sequence[int]
    computed: int
    snapshot: Snapshot | None
    sampling: Sampling
    prompt_length: int
    stop_ids: frozenset[int] = field(default_factory=frozenset)
    constraint: Constraint | None = None
    rules: Rules = NO_RULES
    adapter: Adapter | None = None


class TokenBytes(Protocol):
    """Ids to bytes."""

    def raw(self, token: int) -> bytes:
        """The bytes a token adds to the text; empty for special tokens."""
        ...


class Tokenizer(TokenBytes, Protocol):
    """Text to ids and ids to bytes. Called from preparation threads: must be thread-safe and touch no device."""

    eos_ids: frozenset[int]
    specials: Mapping[int, str]
    """The text of special tokens, by id: `raw` gives none."""
    renderer: Renderer | None
    """What renders conversations with chat templates; None where there are none."""

    def render(self, prompt: ChatPrompt) -> list[int]:
        """Raises TemplateFailed with the template's own message."""
        ...

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The ids of a raw text; with `special` after what this tokenizer puts before every text."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """The text of these ids, special tokens written out."""
        ...

    def id_of(self, text: str) -> int | None:
        """The id of a token that is exactly this text, special ones included."""
        ...

    def tokenizer_json(self) -> str | None:
        """The tokenizer in the form of a tokenizer.json, for grammars; None where it has none."""
        ...


class Freezer(Protocol):
    """Turns snapshots into plain memory and back; on the step loop's thread."""

    def key(self, settings: DiskSettings) -> str:
        """Names the weights and the form of keys and values: no snapshot fits another key."""
        ...

    def freeze(self, snapshot: Snapshot) -> Frozen | None:
        """None for a kind that cannot be written down."""
        ...

    def thaw(self, file: Path, layout: Any, length: int) -> Snapshot:
        """A snapshot from the file its tensors were written to. Raises BrokenEntry."""
        ...


class Backend(Protocol):
    """Owned by one thread, the step loop's, which also loads it."""

    def load(
        self, spec: EngineSpec, settings: EngineSettings, progress: Callable[[str, float], None]
    ) -> tuple[ModelInfo, Tokenizer]:
        """Raises LoadFailed, saying whether a retry can help."""
        ...

    def configure(self, settings: EngineSettings) -> int:
        """Build the KV store these settings ask for, while no sequence is open; bytes a token takes in it."""
        ...

    def targets(self) -> Targets:
        """The layers an adapter may change; once it is loaded."""
        ...

    def keep_adapters(self, directories: Sequence[str]) -> None:
        """Those that requests may ask for from now on, in place of the settings' it was loaded with."""
        ...

    def adapter_bytes(self) -> int:
        """What the adapters take that are in memory now, after those that are of no use any more were let go."""
        ...

    def held_bytes(self) -> int:
        """What the keys and values of all open sequences take as they are laid out now: padding, room to grow and
        launched steps included.
        """
        ...

    def freezer(self) -> Freezer:
        """What writes down this backend's snapshots; once it is loaded."""
        ...

    def open(self, opening: Opening) -> None:
        """Make a sequence known; nothing is computed yet. Raises EngineFault where this sequence cannot begin."""
        ...

    def launch(self, batch: Batch) -> Step:
        """Start computing and return at once. A decode row whose newest token is still on the device
        (launched in the step before and not yet waited for) continues from there.

        Raises EngineFault if the device failed; the step before can be waited for all the same.
        """
        ...

    def snapshot(self, sequence: int, length: int) -> Snapshot | None:
        """A copy of the first `length` computed tokens, or None where this cache kind cannot give that.

        Some kinds give only exactly what is computed: ask for a prompt's snapshot right after the launch of its
        last chunk, before the next launch. It is computed lazily and waits for nothing. Raises EngineFault if the
        device failed; the sequence goes on all the same.
        """
        ...

    def close(self, sequence: int) -> None:
        """Forget a sequence and free its row, also while a launched step holds it; unknown ids are ignored.

        The id may be opened again later (a preempted sequence is computed anew).
        """
        ...
