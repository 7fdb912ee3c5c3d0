"""What a reasoning format is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning stands between `open` and `close` at the beginning of an answer; without tags there is none.

    With `implied` an answer begins inside the reasoning even where the prompt does not end with `open`.
    """

    name: str
    aliases: tuple[str, ...] = ()
    open: str = ""
    close: str = ""
    implied: bool = False
