"""`POST /v1/completions`: what a body asks for. Prompts are raw text or token ids; no template touches them."""

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from appliance.errors import BadRequest
from appliance.protocols.adapter import Decoded
from appliance.protocols.answer_form import FORMS, form
from appliance.protocols.completions_stream import Completions
from appliance.protocols.fields import Reader, ignored, in_words, read_fields, typed
from appliance.protocols.prompt_logprobs import PROMPT_LOGPROBS, scores_asked
from appliance.protocols.sampling import (
    MAX_CHOICES,
    SAMPLING,
    StreamOptions,
    choices,
    common,
    count,
    flag,
    include_usage,
    model_name,
    patch,
    text,
)
from appliance.vocab.request import GenerateRequest, TextPrompt, TokenPrompt

MAX_ANSWERS = 1024
DEFAULT_MAX_TOKENS = 16
"""OpenAI's; the deployment's own default goes before it."""

Prompt = TextPrompt | TokenPrompt

_Id = Annotated[int, Meta(ge=0, le=2**53)]


def _prompts(name: str, value: str | list[Any]) -> tuple[Prompt, ...]:
    if isinstance(value, str):
        return (TextPrompt(text=value),)
    if not value:
        raise BadRequest(f"`{name}` must hold at least one prompt or token", param=name)
    if all(type(item) is int for item in value):
        return (_tokens(name, value),)
    return tuple(_prompt(f"{name}[{at}]", item) for at, item in enumerate(value))


def _prompt(place: str, value: Any) -> Prompt:
    match value:
        case str():
            return TextPrompt(text=value)
        case list():
            return _tokens(place, value)
        case _:
            raise BadRequest(f"`{place}` must be a string or a list of token ids", param=place)


def _tokens(place: str, value: list[Any]) -> TokenPrompt:
    try:
        ids = msgspec.convert(value, tuple[_Id, ...], strict=True)
    except msgspec.ValidationError as error:
        raise BadRequest(f"`{place}` must be a list of token ids: {in_words(str(error))}", param=place) from error
    if not ids:
        raise BadRequest(f"`{place}` must hold at least one token", param=place)
    return TokenPrompt(tokens=ids)


FIELDS: dict[str, Reader] = {
    "model": model_name,
    "prompt": typed(
        str | list[Any], "a string, a list of strings, a list of token ids, or a list of such lists", _prompts
    ),
    **{name: reader for name, reader in SAMPLING.items() if name != "chat_template_kwargs"},
    **FORMS,
    "max_tokens": count,
    "n": choices,
    "best_of": choices,
    "echo": flag,
    "suffix": text,
    "logprobs": typed(Annotated[int, Meta(ge=0, le=20)], "an integer from 0 to 20"),
    "prompt_logprobs": PROMPT_LOGPROBS,
    "stream": flag,
    "stream_options": typed(StreamOptions, "an object"),
    "user": text,
    # asking for these changes no answer of ours
    "metadata": ignored,
    "prompt_cache_key": ignored,
    "safety_identifier": ignored,
    "service_tier": ignored,
    "store": ignored,
}
"""Every field we know, and how it is read."""


def decode(body: bytes) -> GenerateRequest:
    """What the body asks for. Raises BadRequest naming the field, Unsupported for one we cannot honour."""
    return _request(*read_fields(body, FIELDS, ("model", "prompt")))


def read(body: bytes) -> Decoded:
    """The request, and its answer's two forms."""
    given, unknown = read_fields(body, FIELDS, ("model", "prompt"))
    asked = _request(given, unknown)
    said = partial(
        Completions, samples=asked.n, kept=given.get("n", 1), echo=given.get("echo", False),
        logprobs=given.get("logprobs"), silent=_silent(given), scores=scores_asked(given),
    )  # fmt: skip
    return Decoded(asked, said, said, echoes=given.get("echo", False))


def _request(given: dict[str, Any], unknown: tuple[str, ...]) -> GenerateRequest:
    samples = _samples(given)
    suffix = given.get("suffix") or None
    if suffix is not None and any(isinstance(prompt, TokenPrompt) for prompt in given["prompt"]):
        raise BadRequest("`suffix` needs prompts that are text", param="suffix")
    logprobs = given.get("logprobs")
    shared = common(given)
    wanted = (logprobs if given.get("echo") else None, scores_asked(given))
    if scores := [most for most in wanted if most is not None]:
        shared["rules"] = msgspec.structs.replace(shared["rules"], scores=max(scores))
    return GenerateRequest(
        **shared,
        prompts=tuple(_with(prompt, suffix) for prompt in given["prompt"]),
        # A prompt is read for its scores with the first token behind it, which is kept back where none was wanted.
        sampling=patch(given, max_tokens=1 if _silent(given) else None),
        grammar=form(given),
        default_max_tokens=DEFAULT_MAX_TOKENS,
        # The best of several is found by log-probabilities, whether the client wants to see them or not.
        logprobs=0 if logprobs is None and samples > given.get("n", 1) else logprobs,
        n=samples,
        user=given.get("user"),
        include_usage=include_usage(given),
        ignored=unknown,
    )


def _silent(given: dict[str, Any]) -> bool:
    """Whether only the prompt's own tokens are wanted."""
    echoed = bool(given.get("echo")) and given.get("logprobs") is not None
    return (echoed or given.get("prompt_logprobs") is not None) and given.get("max_tokens") == 0


def _with(prompt: Prompt, suffix: str | None) -> Prompt:
    return prompt if suffix is None else msgspec.structs.replace(prompt, suffix=suffix)


def _samples(given: dict[str, Any]) -> int:
    """How many answers are generated per prompt, of which the best `n` are given."""
    n = given.get("n", 1)
    best_of: int = given.get("best_of", n)
    if best_of < n:
        raise BadRequest("`best_of` is smaller than `n`", param="best_of")
    if best_of > n and given.get("stream"):
        raise BadRequest("`best_of` above `n` cannot be streamed: the best is known at the end", param="best_of")
    if (answers := best_of * len(given["prompt"])) > MAX_ANSWERS:
        raise BadRequest(
            f"{answers} answers are more than the {MAX_ANSWERS} one request may ask for; send fewer prompts",
            param="prompt",
        )
    assert best_of <= MAX_CHOICES
    return best_of
