"""What a client asks for, free of any protocol."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(msgspec.Struct, frozen=True):
    """A call an assistant made; `arguments` is JSON text, as models write it."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn; its parts are joined to one text. A `mark` says that conversations may part behind it; `parts` are
    lengths of its content behind which they may. A `prefix` is the beginning of an answer its client wants more of.
    """

    role: Role
    content: str | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str | None = None
    mark: bool = False
    parts: tuple[int, ...] = ()
    prefix: bool = False


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function the model may call; `parameters` is a JSON schema. Where some of a request's tools are `forced`,
    the answer must be a call of one of those. A `mark` says that lists of tools may part behind it. A `grammar` in
    Lark is that of its one argument, the text `input`.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    strict: bool = False
    forced: bool = False
    mark: bool = False
    grammar: str = ""


class TextPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """Raw text, no template; with `special` the tokens a tokenizer puts before a text come along. Where there is a
    `suffix` the answer is what stands between the two.
    """

    text: str
    special: bool = True
    suffix: str | None = None


class TokenPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="tokens"):
    """A prompt that is token ids already."""

    tokens: tuple[int, ...]


class Grammar(msgspec.Struct, frozen=True):
    """The form an answer must have. `text` is JSON for json_schema and choice (a list of strings), empty for
    json_object; `param` names the request field it came from, for error messages.
    """

    kind: Literal["json_schema", "json_object", "regex", "choice", "lark"]
    text: str = ""
    param: str = "response_format"


class SamplingPatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling values one layer sets; what it does not mention is UNSET and falls through."""

    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    min_p: float | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    min_tokens: int | UnsetType = UNSET
    reasoning_budget: int | UnsetType = UNSET
    include_reasoning: bool | UnsetType = UNSET
    stop: tuple[str, ...] | UnsetType = UNSET
    stop_token_ids: tuple[int, ...] | UnsetType = UNSET
    ignore_eos: bool | UnsetType = UNSET
    repetition_penalty: float | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    logit_bias: dict[int, float] | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        """Only the values that are set."""
        return {f: v for f in self.__struct_fields__ if (v := getattr(self, f)) is not UNSET}


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the next token is chosen; every value decided. The defaults are the built-in layer.

    `top_k` 0, `top_p` 1, `min_p` 0, penalties 0 (repetition 1) switch a filter off; `temperature` 0 is greedy.
    `max_tokens` None means until the model stops or its context ends. At most `reasoning_budget` of them (None: all)
    are reasoning, which the client gets with `include_reasoning`. `logprobs` None means nobody asked; n means the
    chosen token's log-probability and the n likeliest (0..20).
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0
    max_tokens: int | None = None
    min_tokens: int = 0
    reasoning_budget: int | None = None
    include_reasoning: bool = True
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    logprobs: int | None = None


class TokenRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tokens an answer may hold: none that completes one of the `bad_words`, only those `allowed` where that is
    not None. With a chance of `xtc_probability` all but the least likely of the tokens above `xtc_threshold` are left
    out, as in mlx-lm. With `scores` the prompt's own tokens are told with their log-probabilities and so many of the
    likeliest.

    With a `dry_multiplier` above 0 a token that would repeat a passage of `dry_allowed_length` tokens or more loses
    multiplier * base ** (length - allowed length) of its logit; passages lie in the last `dry_penalty_last_n` tokens
    (-1: in all) and hold no `dry_sequence_breakers`.
    """

    bad_words: tuple[str, ...] = ()
    allowed: tuple[int, ...] | None = None
    scores: int | None = None
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One decoded request. `sampling` holds only what the client said: policy and layers come later.

    `model` is the name as asked (`name` or `name:profile`). `n` answers are generated with seeds seed, seed+1, …
    Where there are `prompts`, each gets `n` answers and there are no messages.
    With `shows_stop` the stop string that ended an answer is part of it; one that `truncates` loses its oldest turns
    where it would not fit.
    `ignored` names the fields we did not know; `template` are the client's template kwargs. Without
    `parallel_calls` the client is told of one tool call at most. `priority`: higher goes first; `cache_salt`
    separates prefix caches; `prediction` is the answer the client expects; `adapter` the name of one of the model's
    ("": none); the model stays in memory for `keep_alive` seconds after it, where that is given. `default_max_tokens`
    is the protocol's own, where nobody else says.
    """

    model: str
    messages: tuple[Message, ...] = ()
    prompts: tuple[TextPrompt | TokenPrompt, ...] = ()
    tools: tuple[Tool, ...] = ()
    sampling: SamplingPatch = SamplingPatch()
    rules: TokenRules = TokenRules()
    shows_stop: bool = False
    truncates: bool = False
    logprobs: int | None = None
    grammar: Grammar | None = None
    n: int = 1
    template: Mapping[str, Any] = {}
    continue_final: bool = False
    user: str | None = None
    stream: bool = False
    include_usage: bool = False
    parallel_calls: bool = True
    priority: int = 0
    cache_salt: str = ""
    prediction: str = ""
    adapter: str | None = None
    keep_alive: float | None = None
    default_max_tokens: int | None = None
    ignored: tuple[str, ...] = ()
