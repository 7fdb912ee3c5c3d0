"""Which special tokens show their text: those that the dialects of an answer mention, no others."""

from collections.abc import Iterable

from appliance.engine.backend import TokenBytes, Tokenizer


class Revealed:
    """A tokenizer's bytes, with special tokens that are one of `markers`, or part of one, as their text."""

    def __init__(self, tokenizer: Tokenizer, markers: Iterable[str]) -> None:
        tags = tuple(markers)
        self._raw = tokenizer.raw
        self._shown = {
            id: text.encode() for id, text in tokenizer.specials.items() if any(text in tag for tag in tags)
        }

    @property
    def any(self) -> bool:
        """Whether there are such tokens."""
        return bool(self._shown)

    def raw(self, token: int) -> bytes:
        """The bytes a token adds to the text."""
        return self._shown.get(token) or self._raw(token)


def reveal(tokenizer: Tokenizer, markers: Iterable[str]) -> TokenBytes:
    """The tokenizer's bytes with these tags; itself where none of them is a special token."""
    revealed = Revealed(tokenizer, markers)
    return revealed if revealed.any else tokenizer
