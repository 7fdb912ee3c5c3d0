"""The grammar's words as the engine uses them: a constraint is compiled once, a matcher follows one sequence."""

from collections.abc import Callable, Iterable
from functools import cached_property
from threading import Lock
from typing import NoReturn

from appliance.errors import BadRequest, Unsupported
from appliance.grammar.matcher import NO_GRAMMAR, Constraint, Constraints, Masks, Matcher
from appliance.grammar.source import MAX_SOURCE, source
from appliance.text.lark import Split
from appliance.vocab.request import Grammar

__all__ = ["NO_GRAMMAR", "Constraint", "Grammars", "Masks", "Matcher"]


class Grammars:
    """Compiles what requests ask of their answers' form. The tokenizer is read when the first one does, since most
    engines are never asked. Thread-safe.
    """

    def __init__(self, tokenizer_json: Callable[[], str | None], vocab_size: int, eos_ids: Iterable[int]) -> None:
        self._tokenizer_json = tokenizer_json
        self._vocab_size = vocab_size
        self._eos_ids = frozenset(eos_ids)
        self._lock = Lock()

    def compile(self, grammar: Grammar) -> Constraint:
        """Raises BadRequest for a grammar that is wrong or too large, Unsupported where the tokenizer cannot do."""
        return self.compile_source(source(grammar), grammar.param)

    def compile_source(self, text: str, param: str) -> Constraint:
        """The same for llguidance's own text of one, which the request's field `param` asked for."""
        if len(text) > MAX_SOURCE:
            raise BadRequest(f"the grammar is larger than {MAX_SOURCE} bytes", param=param)
        try:
            with self._lock:  # a grammar that many requests ask for at once is compiled once
                if self._constraints is None:
                    self.refuse(param)
                return self._constraints.compile(text)
        except ValueError as error:
            raise BadRequest(f"the grammar cannot be used: {error}", param=param) from error

    def refuse(self, param: str) -> NoReturn:
        """Raises Unsupported for what the request's field `param` asks."""
        raise Unsupported("this model's tokenizer cannot follow a grammar", param=param)

    @property
    def split(self) -> Split | None:
        """How the tokenizer parts a text at its special tokens; None where it cannot follow a grammar."""
        with self._lock:
            return None if self._constraints is None else self._constraints.split

    @cached_property
    def _constraints(self) -> Constraints | None:
        text = self._tokenizer_json()
        return None if text is None else Constraints(text, self._vocab_size, self._eos_ids)
