"""What a template begins each role's turn with, as far as it is plain text: found by looking before known words, and
kept from meaning that inside what users and tools say.

Special tokens are kept apart by the tokenizer; `User:` or `### Response` at the beginning of a line, and `[/INST]`
anywhere, can only be told from the template's own by a character more: a word joiner, which is not seen and which no
template trims.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, reduce

Heads = tuple[tuple[str, str], ...]
"""Roles, and the last line of what stands before their texts."""
Text = Callable[..., str | None]
"""The conversation of these roles and texts in turn, or None where the template refuses it."""

JOINER = "\u2060"
_TURNS = (
    "user",
    "probeaska",
    "assistant",
    "probesaida",
    "user",
    "probeaskb",
    "assistant",
    "probesaidb",
    "user",
    "probeaskc",
)
_SYSTEM = "probesystem"
_LONGEST = 48
_TELLING = re.compile(r'(?=.*\w)(?=.*[^\w\s])[^"{}]+')
"""A word and a sign: `assistant` alone is a word like others."""
_BRACKETED = re.compile(r"\[[^\[\]]+\]|<[^<>]+>")
_THOUGHT = re.compile(r"(</?think>|\[/?THINK\]|\s)+$")
"""Reasoning that is shown as none, behind the head."""
_VARIES = re.compile(r"[0-9]|probe")


def heads(text: Text, results: str | None, result: str, specials: Iterable[str] = ()) -> Heads:
    """Those of every role. `results` is a rendered conversation in which tools say `result`; `specials` are known to
    be special tokens.
    """
    ends = tuple(token for token in specials if token)
    turns, told = text(*_TURNS) or "", text("system", _SYSTEM, *_TURNS[:2]) or ""
    found = {
        "system": _head(told, ends, _SYSTEM),
        "user": _head(turns, ends, *_TURNS[1::4]),
        "assistant": _head(turns, ends, *_TURNS[3::4]),
        "tool": _head(results or "", ends, result),
    }
    return tuple((role, head) for role, head in found.items() if head)


def kept_apart(said: str, role: str, heads: Heads, mark: Callable[[str], str]) -> str:
    """What a role said, with no line in it that begins like a turn of another. `mark` changes special tokens."""
    pattern = _pattern(tuple(sorted(set(_plain(role, heads, mark)), key=len, reverse=True)))
    return said if pattern is None else pattern.sub(lambda found: found[0] + JOINER, said)


def _head(text: str, specials: Sequence[str], *words: str) -> str:
    """The last line before these words behind any special token, as far as it is the same before each of them."""
    before = [_after(text[: text.index(word)], specials) for word in words if word in text]
    same = _THOUGHT.sub("", reduce(_ending, before)) if before else ""
    line = same.rpartition("\n")[2].strip()
    return line if len(line) <= _LONGEST and not _VARIES.search(line) else ""


def _after(text: str, specials: Sequence[str]) -> str:
    return text[max((text.rfind(token) + len(token) for token in specials if token in text), default=0) :]


def _ending(first: str, second: str) -> str:
    """The longest ending of both."""
    pairs = enumerate(zip(reversed(first), reversed(second), strict=False))
    size = next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))
    return first[len(first) - size :]


def _plain(role: str, heads: Heads, mark: Callable[[str], str]) -> Iterator[str]:
    own = dict(heads).get(role)
    for _, head in heads:
        rest = _ending(head, mark(head)).strip()  # behind its last special token, which nobody else can write
        if head != own and _TELLING.fullmatch(rest):
            yield rest


@lru_cache(maxsize=64)
def _pattern(heads: tuple[str, ...]) -> re.Pattern[str] | None:
    """A head in brackets means its turn wherever it stands, a word with a colon at the beginning of a line only."""
    lines = "|".join(re.escape(head) for head in heads if not _BRACKETED.fullmatch(head))
    inline = "|".join(re.escape(head) for head in heads if _BRACKETED.fullmatch(head))
    either = [*([rf"^[ \t]*(?={lines})"] if lines else []), *([rf"(?={inline})"] if inline else [])]
    return re.compile("|".join(either), re.MULTILINE) if either else None
