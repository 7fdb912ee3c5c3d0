"""One generation inside an engine: the tokens known and how many of them are computed."""

from dataclasses import dataclass, field

from appliance.engine.adapter import Adapter
from appliance.engine.constraint import Constraint
from appliance.engine.drafting import Drafting
from appliance.engine.pipeline import Pipeline
from appliance.engine.prefix_cache import NO_MATCH, Match
from appliance.engine.rules import NO_RULES, Rules
from appliance.vocab.request import Sampling
from appliance.vocab.spec import in_background, urgency


@dataclass(eq=False, slots=True)
class Sequence:
    """Identity and limits are given; what stands below `computed` belongs to the scheduler alone.

    `known` are prompt, emitted and sampled tokens, `limit` the most it may ever know. Of two equal `priority`
    (higher goes first) the smaller `order` goes first. `tenant` is whose it is.

        known:  [ prompt                     | emitted, sampled ][ pending ]
        computed ────────▶ len(known) - 1, then it decodes: one pending token per launched step
    """

    id: int
    known: list[int]
    prompt_length: int
    limit: int
    sampling: Sampling
    pipeline: Pipeline
    namespace: str = ""
    priority: int = 0
    order: int = 0
    tenant: str = ""
    stop_ids: frozenset[int] = frozenset()
    constraint: Constraint | None = None
    rules: Rules = NO_RULES
    adapter: Adapter | None = None
    foretold: list[int] | None = None
    """What its client expects as the answer."""

    checkpoints: tuple[int, ...] = ()
    """Lengths of the prompt at which a snapshot is worth having, ascending."""
    warms: bool = False
    """It is computed for its prefix alone."""

    computed: int = 0
    """Prefill tokens launched or taken from a snapshot."""
    decodes: bool = False
    """Its last chunk is launched: it may be a decode row from now on."""
    landed: bool = False
    """Its last chunk is committed."""
    speaks: bool = False
    """It has been a decode row."""
    waited_tokens: int = 0
    """Tokens of other prompts that went before its first token."""
    pending: int = 0
    """Tokens sampled by launched steps that are not committed yet."""
    started: bool = False
    due: list[int] = field(default_factory=list)
    """Lengths, ascending, at which a snapshot is wanted and not yet taken."""
    taking: list[int] = field(default_factory=list)
    """Lengths whose snapshot is taken by a step that is not committed yet."""
    leaders: set[int] = field(default_factory=set)
    """Sequences it has waited for already: once each is enough."""
    awaits: "tuple[Sequence, int] | None" = None
    found: Match = NO_MATCH
    """What was stored of it when it was opened first, without the snapshot."""
    drafting: Drafting | None = None
    """Guesses its next tokens."""

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.priority, self.order)

    @property
    def urgency(self) -> int:
        return urgency(self.priority)

    @property
    def background(self) -> bool:
        """Whether nobody waits for it."""
        return in_background(self.priority)

    @property
    def prefill_end(self) -> int:
        """All known tokens but the one that is the first decode step's input."""
        return len(self.known) - 1

    @property
    def held_tokens(self) -> int:
        """Tokens whose keys and values it holds or will hold when all known are computed."""
        return len(self.known) + self.pending
