"""Which bytes each token id adds to the text, from the tokenizer's own decoder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SPACE = "\u2581"  # sentencepiece writes a space as this character


def byte_alphabet() -> dict[str, int]:
    """The characters byte-level BPE writes for the 256 bytes (GPT-2's `bytes_to_unicode`, inverted)."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    alphabet = {chr(byte): byte for byte in visible}
    hidden = (byte for byte in range(256) if byte not in set(visible))
    return alphabet | {chr(256 + position): byte for position, byte in enumerate(hidden)}


def byte_table(tokenizer: Any, directory: Path) -> list[bytes]:
    """Bytes by token id; special tokens add none.

    Byte-level and sentencepiece-style decoders give exact bytes; for any other tokenizer each id is decoded alone,
    where a token that is part of a character gives a replacement character.
    """
    size = len(tokenizer)
    added = tokenizer.added_tokens_decoder
    decode = _decoder(tokenizer, directory)
    table = []
    for token, text in enumerate(tokenizer.convert_ids_to_tokens(list(range(size)))):
        if token in added:
            table.append(b"" if added[token].special else added[token].content.encode())
        else:
            table.append(b"" if text is None else decode(token, text))
    return table


def _decoder(tokenizer: Any, directory: Path) -> Any:
    kinds = _decoder_kinds(directory)
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()
        return lambda token, text: _byte_level(text, alphabet)
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        return lambda token, text: _sentencepiece(text)
    return lambda token, text: tokenizer.decode([token]).encode()


def _decoder_kinds(directory: Path) -> set[str]:
    file = directory / "tokenizer.json"
    if not file.exists():
        return set()
    decoder = json.loads(file.read_text(encoding="utf-8")).get("decoder") or {}
    return {step["type"] for step in decoder.get("decoders", [decoder]) if "type" in step}


def _byte_level(text: str, alphabet: Mapping[str, int]) -> bytes:
    if all(char in alphabet for char in text):
        return bytes(alphabet[char] for char in text)
    return text.encode()


def _sentencepiece(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace(SPACE, " ").encode()
