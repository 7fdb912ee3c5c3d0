"""What an engine is told about the model it serves, and what it tells back."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from appliance.vocab.request import Grammar, Message, Sampling, TextPrompt, TokenPrompt, TokenRules, Tool

DType = Literal["auto", "float32", "float16", "bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculative:
    """How tokens are guessed: `lookup` in the sequence itself, `suffix` in earlier answers too, `draft` by the small
    model `draft`, `mtp` by the model's own extra heads. At most `depth` tokens at a time, while at most `max_batch`
    sequences decode. A deployment names the small model by its source written in full, an engine by its directory.
    """

    kind: Literal["lookup", "suffix", "draft", "mtp"]
    draft: str = ""
    depth: int = 3
    max_batch: int = 2


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the weights in memory; two equal specs are one engine.

    `backend` is `mlx` (then `path` is a model directory) or `fake` (then `path` is a script). With `tokenizer_only`
    no weights are loaded: it can count and render prompts, and nothing else. `max_kv` is the window of last tokens
    that sequences look back at (None: all).
    """

    backend: Literal["mlx", "fake"]
    path: str
    dtype: DType = "auto"
    trust_remote_code: bool = False
    tokenizer_only: bool = False
    speculative: Speculative | None = None
    max_kv: int | None = None


class DiskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where an engine keeps prefixes on disk: `bytes` is the cap of the whole directory, which engines share.

    `key` names the weights; `ttl` are the seconds without a use after which a prefix is forgotten.
    """

    path: str
    bytes: int
    ttl: float
    key: str


@dataclass(frozen=True, slots=True)
class KvForm:
    """Keys and values in `bits` bits, `group` of them sharing a scale, of rows of more than `from_token` tokens. Each
    token that has so many before it looks at packed ones, the others at exact ones, however they are computed.
    """

    bits: int
    group: int = 64
    from_token: int = 0


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Live settings of an engine: may change at any step. Bytes and seconds.

    `context` is the largest prompt plus answer in tokens, `concurrency` the rows decoded together,
    `kv_bytes` the budget of all rows' keys and values, `prefix_bytes` that of the prefix cache (0: none),
    `stall_target` how long a prefill chunk may delay running streams. `disk` is where prefixes outlive the engine,
    `prefix_ttl` after how many seconds without a use they are forgotten.
    What follows takes another KV store: `kv` is the form of keys and values (None: exact), `stored` that of kept
    prefixes of exact rows. `warm` are beginnings of conversations that are kept computed,
    `adapters` the directories of those that requests may ask for. `log` is the format and the level of what it logs
    (None: as it was started).
    """

    context: int
    concurrency: int
    kv_bytes: int
    prefix_bytes: int
    stall_target: float
    prefix_ttl: float = float("inf")
    disk: DiskSettings | None = None
    kv: KvForm | None = None
    stored: KvForm | None = None
    warm: tuple["ChatPrompt", ...] = ()
    adapters: tuple[str, ...] = ()
    log: tuple[Literal["console", "json"], Literal["debug", "info", "warning", "error"]] | None = None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the loaded model. `weight_bytes` as resident, `kv_bytes_per_token` for one row. It `trims` where
    what is kept of a row can be cut to any length, so that a prefix of it is of use and wrong guesses are taken back;
    rows that decode together are `padded` to the longest. Of the weights each pass reads `pass_bytes`, and of
    `expert_bytes` more each of its tokens the `expert_share`.
    """

    context: int
    vocab_size: int
    weight_bytes: int
    kv_bytes_per_token: int
    dtype: str
    load_seconds: float
    notes: tuple[str, ...] = ()
    trims: bool = True
    padded: bool = False
    pass_bytes: int = 0
    expert_bytes: int = 0
    expert_share: float = 1.0


class ChatPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="chat"):
    """Messages to be rendered by a chat template: the checkpoint's own, or `template` where given.

    With `recipe` the tools are described in the system text instead: the model has no format of its own for calls.
    The dialects are those that the model's own turns of the past are written in.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    template: str | None = None
    kwargs: dict[str, Any] = {}
    continue_final: bool = False
    recipe: bool = False
    tool_dialect: str = "none"
    reasoning_dialect: str = "none"


Prompt = ChatPrompt | TextPrompt | TokenPrompt


WISHES = 1000
"""What a client wishes for among its own requests is less than this, so that it never reaches the next class."""


def urgency(priority: int) -> int:
    """The class of a priority, whatever was wished for within it: classes are `2 * WISHES` apart."""
    return (priority + WISHES) // (2 * WISHES)


BACKGROUND = 10 * WISHES
"""More than any key and any wish can make up for: what is done in the background has so much less."""


def in_background(priority: int) -> bool:
    """Whether nobody waits for what has this priority."""
    return priority <= -BACKGROUND // 2


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One generation. `sampling.seed` is always drawn; `emitted` are token ids an engine before this one
    already produced: they are prefilled and replayed through the text pipeline without being sent again.

    `id` is unique for the life of the server; `context` bounds prompt plus answer in tokens;
    `namespace` separates prefix caches; `stop_tokens` are the family's, by text; `prediction` is what the client
    expects as the answer: it changes how fast that comes, not what it is. `adapter` is a LoRA adapter's directory.
    `tenant` is whose it is: those of a class are served equally.
    """

    id: int
    prompt: Prompt
    sampling: Sampling
    context: int
    emitted: tuple[int, ...] = ()
    namespace: str = ""
    stop_tokens: tuple[str, ...] = ()
    tool_dialect: str = "none"
    reasoning_dialect: str = "none"
    priority: int = 0
    grammar: Grammar | None = None
    parallel_calls: bool = True
    prediction: str = ""
    adapter: str = ""
    rules: TokenRules = TokenRules()
    tenant: str = ""
