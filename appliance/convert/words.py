"""The words of a command line as settings, by a table of flags."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from appliance.convert.draft import Item
from appliance.convert.target import Row, Table


@dataclass(slots=True)
class Read:
    """`found` are settings with their rows, `loose` words that belong to no flag, `unknown` flags of no table."""

    found: list[tuple[Item, Row]] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def read(words: Sequence[str], table: Table) -> Read:
    """Every word is accounted for. Flags may be written `--flag value`, `--flag=value`, or cut short."""
    out, at = Read(), 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            out.loose.append(word)
            continue
        flag, equals, given = word.partition("=")
        name = _known(flag, table)
        if name is None:
            off = _known(f"--{flag[5:]}", table) if flag.startswith("--no-") else None
            if off is not None and table[off].takes == "maybe":
                out.found.append((Item(off, False), table[off]))
                continue
            out.unknown.append(flag)
            while not equals and at < len(words) and not _is_flag(words[at]):
                at += 1
            continue
        row = table[name]
        if equals:
            value: str | bool | list[str] = [given] if row.takes == "many" else given
        else:
            value, at = _value(words, at, row)
        out.found.append((Item(name, value, row.secret), row))
    return out


def _value(words: Sequence[str], at: int, row: Row) -> tuple[str | bool | list[str], int]:
    end = at
    while end < len(words) and not _is_flag(words[end]):
        end += 1
    if row.takes == "none" or (row.takes == "maybe" and end == at):
        return True, at
    if row.takes == "many":
        return list(words[at:end]), end
    return (words[at], at + 1) if at < len(words) else ("", at)


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit() and word[1] != "."


def _known(flag: str, table: Table) -> str | None:
    if flag in table:
        return flag
    if not flag.startswith("--"):
        return None
    longer = [name for name in table if name.startswith(flag)]
    return longer[0] if len(longer) == 1 else None
