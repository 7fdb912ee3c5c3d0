"""Which bytes each token id adds to the text, from the tokenizer's own decoder."""

import json
from collections.abc import Callable, Mapping
from typing import Any

SPACE = "\u2581"  # sentencepiece writes a space as this character


def byte_alphabet() -> dict[str, int]:
    """The characters byte-level BPE writes for the 256 bytes (GPT-2's `bytes_to_unicode`, inverted)."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    alphabet = {chr(byte): byte for byte in visible}
    hidden = (byte for byte in range(256) if byte not in set(visible))
    return alphabet | {chr(256 + position): byte for position, byte in enumerate(hidden)}


class TokenBytes:
    """Bytes by token id, worked out when first asked for; special tokens and ids past the vocabulary add none.

    Byte-level and sentencepiece-style decoders give exact bytes; for any other tokenizer each id is decoded alone,
    where a token that is part of a character gives a replacement character.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._size = len(tokenizer)
        self._added = tokenizer.added_tokens_decoder
        self._decode = _decoder(tokenizer)
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token: int) -> bytes:
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = self._work_out(token)
        return known

    def _work_out(self, token: int) -> bytes:
        if token in self._added:
            return b"" if self._added[token].special else self._added[token].content.encode()
        text = self._tokenizer.convert_ids_to_tokens(token) if token < self._size else None
        return b"" if text is None else self._decode(token, text)


def _decoder(tokenizer: Any) -> Callable[[int, str], bytes]:
    kinds = _decoder_kinds(tokenizer)
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()
        return lambda token, text: _byte_level(text, alphabet)
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        return lambda token, text: _sentencepiece(text)
    return lambda token, text: tokenizer.decode([token]).encode()


def _decoder_kinds(tokenizer: Any) -> set[str]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.decoder is None:
        return set()
    decoder = json.loads(backend.decoder.__getstate__())
    return {step["type"] for step in decoder.get("decoders", [decoder])}


def _byte_level(text: str, alphabet: Mapping[str, int]) -> bytes:
    if all(char in alphabet for char in text):
        return bytes(alphabet[char] for char in text)
    return text.encode()


def _sentencepiece(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace(SPACE, " ").encode()
