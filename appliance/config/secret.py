"""A text that is never shown: not in logs, plans, dumps, errors or by any serialiser."""

import hmac
from typing import Any, NoReturn

SHOWN = "***"


class Secret:
    """Only `reveal` gives the text. Equal where the texts are, compared in constant time."""

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return f"Secret({SHOWN})"

    def __str__(self) -> str:
        return SHOWN

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a secret does not change")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret cannot be serialised")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: Any) -> "Secret":
        return self
