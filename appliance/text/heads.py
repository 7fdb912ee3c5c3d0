"""What a template begins each role's turn with, as far as it is plain text: found by looking before known words, and
kept from meaning that inside what users and tools say.

Special tokens are kept apart by the tokenizer; `User:` or `### Response` at the beginning of a line, and `[/INST]`
anywhere, can only be told from the template's own by a character more: a word joiner, which is not seen and which no
template trims. `USER:` inside a line means something only to a model whose template writes it there.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of what stands before a role's texts; `before` is what a later turn has before it there."""

    role: str
    text: str
    before: str


Heads = tuple[Head, ...]
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
_SAID = re.compile(r".*probe(ask|said|system)[a-z]*")
"""What other roles say in the same line."""
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
    return tuple(Head(role, *head) for role, head in found.items() if head is not None)


def kept_apart(said: str, role: str, heads: Heads, mark: Callable[[str], str]) -> str:
    """What a role said, with nothing in it that begins a turn of another. `mark` changes special tokens."""
    pattern = _pattern(frozenset(_plain(role, heads, mark)))
    return said if pattern is None else pattern.sub(lambda found: found[0] + JOINER, said)


def _head(text: str, specials: Sequence[str], *words: str) -> tuple[str, str] | None:
    """The last line before these words behind any special token, as far as it is the same before each of them; and
    what stands before it in its line before the last of them.
    """
    before = [_THOUGHT.sub("", _after(text[: text.index(word)], specials)) for word in words if word in text]
    line = _SAID.sub("", reduce(_ending, before).rpartition("\n")[2]).strip() if before else ""
    if not line or len(line) > _LONGEST or _VARIES.search(line):
        return None
    return line, before[-1].rpartition(line)[0].rpartition("\n")[2]


def _after(text: str, specials: Sequence[str]) -> str:
    return text[max((text.rfind(token) + len(token) for token in specials if token in text), default=0) :]


def _ending(first: str, second: str) -> str:
    """The longest ending of both."""
    pairs = enumerate(zip(reversed(first), reversed(second), strict=False))
    size = next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))
    return first[len(first) - size :]


def _plain(role: str, heads: Heads, mark: Callable[[str], str]) -> Iterator[tuple[str, bool]]:
    """What begins turns of others, and whether it does so inside a line, too."""
    own = next((head.text for head in heads if head.role == role), "")
    for head in heads:
        if head.text == own:
            continue
        rest = _behind(head.text, mark)
        if _TELLING.fullmatch(rest):
            yield rest, rest == head.text and bool(_behind(head.before, mark))
        # In brackets it means that wherever it stands.
        yield from ((tag, True) for tag in _BRACKETED.findall(rest) if tag not in own and _TELLING.fullmatch(tag))


def _behind(text: str, mark: Callable[[str], str]) -> str:
    """What is behind the last special token, which nobody else can write."""
    return _ending(text, mark(text)).strip()


@lru_cache(maxsize=64)
def _pattern(heads: frozenset[tuple[str, bool]]) -> re.Pattern[str] | None:
    inside = {head for head, inside in heads if inside}
    lines = {head for head, _ in heads} - inside
    either = [(r"^[ \t]*", lines), (r"(?<!\w)", inside)]
    found = [f"{before}(?={'|'.join(map(re.escape, sorted(some, key=len)))})" for before, some in either if some]
    return re.compile("|".join(found), re.MULTILINE) if found else None
