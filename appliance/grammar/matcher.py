"""Follows a grammar token by token: which tokens may come next, as a bit mask over the vocabulary."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from llguidance import LLExecutor, LLMatcher, LLTokenizer

CACHED_GRAMMARS = 64


class Watch(Protocol):
    """Follows an answer too, and may at times leave it one token only."""

    def accept(self, token: int) -> None: ...

    @property
    def only(self) -> int | None:
        """The one token that may come next, None where it has no say."""
        ...


class Matcher:
    """One sequence's place in its grammar. Not thread-safe, but may be handed from thread to thread."""

    def __init__(self, matcher: LLMatcher | None, watch: Watch | None = None) -> None:
        self._matcher = matcher
        self._watch = watch
        self.error = ""
        """Why it cannot go on; empty while it can. May be read while the next mask is computed."""

    def accept(self, token: int) -> None:
        """Take the token that was chosen; one the grammar does not allow is an error."""
        if self._watch is not None:
            self._watch.accept(token)
        matcher = self._matcher
        if matcher is not None and not matcher.is_stopped() and not matcher.consume_token(token):
            self.error = matcher.get_error()

    def ahead(self, tokens: Sequence[int]) -> "Matcher":
        """A copy that has taken these tokens too. Not of one with a watch."""
        assert self._watch is None
        copy = Matcher(self._matcher and self._matcher.deep_copy())
        for token in tokens:
            copy.accept(token)
        return copy

    def allowed(self, tokens: Sequence[int]) -> int:
        """How many of these tokens the grammar would take, one after the other."""
        return len(tokens) if self._matcher is None else self._matcher.validate_tokens(list(tokens))

    @property
    def only(self) -> int | None:
        """The one token that may come next, whatever the grammar says; None where that decides."""
        return None if self._watch is None else self._watch.only

    @property
    def inner(self) -> LLMatcher | None:
        """None where there is no grammar."""
        return self._matcher


class Constraint:
    """A compiled grammar, a watch, or both; each sequence starts a matcher of its own."""

    def __init__(self, compiled: LLMatcher | None, watch: Callable[[], Watch] | None = None) -> None:
        self._compiled = compiled
        self._watch = watch

    @property
    def looks_ahead(self) -> bool:
        """Whether its matchers can be asked about tokens that may yet not be said."""
        return self._watch is None

    def watched(self, watch: Callable[[], Watch]) -> "Constraint":
        """The same grammar with a watch, a new one for each sequence."""
        return Constraint(self._compiled, watch)

    def start(self, said: Sequence[int]) -> Matcher:
        """A matcher that has taken the tokens an answer consists of so far."""
        matcher = Matcher(self._compiled and self._compiled.deep_copy(), self._watch and self._watch())
        for token in said:
            matcher.accept(token)
        return matcher


NO_GRAMMAR = Constraint(None)


class Constraints:
    """Compiles grammars for one tokenizer, the text of a tokenizer.json. Building it takes about a second."""

    def __init__(self, tokenizer_json: str, vocab_size: int, eos_ids: Iterable[int]) -> None:
        self._tokenizer = LLTokenizer(tokenizer_json, n_vocab=vocab_size, eos_token=sorted(eos_ids))
        self.compile = lru_cache(maxsize=CACHED_GRAMMARS)(self._compiled)
        """Source to Constraint. Raises ValueError with llguidance's reason."""

    def split(self, text: str) -> list[str | int]:
        """A text as pieces: ids of special tokens, and the text between them."""
        pieces: list[str | int] = []
        plain: list[int] = []
        for token in self._tokenizer.tokenize_str(text, parse_special=True):
            if self._tokenizer.is_special_token(token):
                pieces += [self._tokenizer.decode_str(plain), token] if plain else [token]
                plain = []
            else:
                plain.append(token)
        return [*pieces, self._tokenizer.decode_str(plain)] if plain else pieces

    def _compiled(self, source: str) -> Constraint:
        matcher = LLMatcher(self._tokenizer, source)
        if matcher.is_error():
            raise ValueError(matcher.get_error().strip().splitlines()[0][:300])
        return Constraint(matcher)


class Masks:
    """Computes the masks of many matchers in parallel, outside the GIL."""

    def __init__(self, threads: int) -> None:
        self._executor = LLExecutor(threads)

    def fill(self, matchers: Sequence[Matcher], address: int, row_bytes: int) -> None:
        """Write each matcher's mask of `row_bytes` bytes, one bit a token, little-endian, one after the other;
        nothing where it has no grammar.
        """
        numbered = [(matcher.inner, place) for place, matcher in enumerate(matchers) if matcher.inner is not None]
        if numbered:
            self._executor.unsafe_compute_mask_ptr(numbered, address, row_bytes, len(matchers))
