"""Turns a grammar in the EBNF of llama.cpp and vLLM (`root ::= …`, also called GBNF) into one in Lark's. PURE."""

import re

MAX_EBNF = 32 * 1024
"""Characters: the time to turn them grows with their square where each rule needs the one behind it."""

_RULE = re.compile(r"^\s*[\w-]+\s*::=", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", re.DOTALL)


def is_ebnf(text: str) -> bool:
    """Whether its rules are written with `::=`, which Lark's never are."""
    return _RULE.search(text) is not None


def lark(text: str) -> str:
    """The same grammar in Lark's syntax. Raises ValueError saying what is wrong, and where."""
    from llguidance.gbnf_to_lark import gbnf_to_lark

    if len(text) > MAX_EBNF:
        raise ValueError(f"it is longer than {MAX_EBNF} characters; those in Lark's syntax may be longer")
    try:
        return gbnf_to_lark(_ESCAPE.sub(_character, text))
    except Exception as error:  # it raises nothing narrower for a rule that is missing
        raise ValueError(str(error) or "its groups are nested too deep") from error


def _character(escape: re.Match[str]) -> str:
    """What stands for a character beyond ASCII as that character: the Lark syntax has no escapes for it."""
    code = int(next(filter(None, escape.groups()), "0"), 16)
    return chr(code) if 0x80 <= code < 0x110000 and not 0xD800 <= code < 0xE000 else escape[0]
