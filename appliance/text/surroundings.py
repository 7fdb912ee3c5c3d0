"""Whether an answer's text so far ends inside code, where a tag is quoted and opens nothing."""

import re

UNQUOTED = "({line}(\\n{line})*(\\n{block})*|({block}(\\n{block})*)?)".replace(
    "{block}", "```[^\\n]*(\\n{line})*\\n```[^\\n]*(\\n{line})*"
).replace("{line}", "([^`\\n][^\\n]*|`{1,2}([^`\\n][^\\n]*)?)?")
"""A regular expression for text behind which Fences finds nothing quoted, but for a backtick at its end."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)", re.MULTILINE)
_BEGUN = re.compile(r" {0,3}(?:[`~]{3}|[`~]{0,2}\Z)")
"""What may become a fence yet, or is one."""
_LONGEST_HEAD = 80
_PLAIN = "x"
_FENCED = "```"


class Surroundings:
    """Feed the answer's text: constant memory, linear time."""

    def __init__(self) -> None:
        self._fence: str | None = None
        """The run of characters that opened the block the text is in."""
        self._line = ""
        """The beginning of the last line, where it may be a fence."""
        self._last = ""

    def feed(self, text: str) -> None:
        if not text:
            return
        self._last = text[-1]
        if self._line == _PLAIN and "\n" not in text:
            return
        whole = self._line + text
        cut = whole.rfind("\n") + 1
        if cut and ("```" in whole or "~~~" in whole):
            for fence in _FENCE.finditer(whole, 0, cut):
                self._fence = _after(self._fence, fence[1], fence[2])
        self._line = _head(whole[cut:])

    @property
    def quoted(self) -> bool:
        """Whether what comes next stands in a fenced block or right behind a backtick."""
        fence = _FENCE.match(self._line)
        if fence is not None:
            return _after(self._fence, fence[1], fence[2]) is not None
        return self._fence is not None or self._last == "`"


class Fences:
    """The same by a simpler rule, one that a grammar can keep to: every line that begins with three backticks begins
    or ends a block.
    """

    def __init__(self) -> None:
        self._inside = False
        self._begun = ""
        """The beginning of the last line, as long as it may be a fence."""
        self._last = ""

    def feed(self, text: str) -> None:
        for at, line in enumerate(text.split("\n")):
            if at:
                self._begun = ""
            if line and len(self._begun) < len(_FENCED):
                self._begun += line[: len(_FENCED) - len(self._begun)]
                if self._begun == _FENCED:
                    self._inside = not self._inside
        self._last = text[-1:] or self._last

    @property
    def quoted(self) -> bool:
        """Whether what comes next stands in a block or right behind a backtick."""
        return self._inside or self._last == "`"


def _after(fence: str | None, run: str, info: str) -> str | None:
    """The open block behind a line that begins with `run`."""
    if fence is None:
        return None if run[0] in info and run[0] == "`" else run
    # A tag may follow a closing fence directly: models close the block they quote and go on.
    closes = run[0] == fence[0] and len(run) >= len(fence) and info.strip()[:1] in ("", "<")
    return None if closes else fence


def _head(line: str) -> str:
    return line[:_LONGEST_HEAD] if _BEGUN.match(line) else _PLAIN
