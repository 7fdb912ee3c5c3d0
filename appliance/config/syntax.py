"""What is wrong with a text that is no YAML: where, in words, and what to do."""

import yaml

from appliance.config.problem import Place, Problem, at

_HINTS = {
    "mapping values are not allowed": "put a text with a colon in quotes, a key of its own on a line of its own",
    "did not find expected ',' or '}'": "close the `{` or put a comma",
    "did not find expected ',' or ']'": "close the `[` or put a comma",
    "did not find expected key": "indent this line like the keys beside it",
    "did not find expected '-' indicator": "begin this line with `-`, or indent it like what it belongs to",
    "could not find expected ':'": "write key: value",
    "unexpected end of stream": "close the quotes",
    "undefined alias": "`*` refers to an `&` further up; put a text that begins with `*` in quotes",
    "cannot start any token": "put a text that begins with this character in quotes",
    "found unexpected ':'": "put a text with a colon in quotes",
    "another document": "keep one, or put the other into a file of its own",
    "escape c": "in single quotes a backslash is only a backslash",
}


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """The one problem of a file whose `text` YAML's parser gave up on with this error."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        return _marked(error, mark, text, file)
    return _character(error, text, file)


def _marked(error: yaml.MarkedYAMLError, mark: yaml.Mark, text: str, file: str) -> Problem:
    lines = text.splitlines() or [""]
    # What is missing at the end of the file is shown behind its last line.
    line, col = (mark.line, mark.column) if mark.line < len(lines) else (len(lines) - 1, len(lines[-1]))
    message, begun = _in_words(error), error.context_mark
    hint = next((hint for said, hint in _HINTS.items() if said in message), "")
    if "\t" in lines[line][: col + 1]:
        hint = "YAML allows no tab in the indentation: use spaces"
    elif begun and begun.line < min(line, mark.line) and not message.startswith("expected"):
        hint = f"it begins on line {begun.line + 1}"
    return at(Place(file, line + 1, col + 1, col + 2), "E101", (), message, hint)


def _character(error: yaml.YAMLError, text: str, file: str) -> Problem:
    position = getattr(error, "position", 0) or 0
    before = text[:position] if isinstance(position, int) else ""
    line, col = before.count("\n") + 1, len(before) - before.rfind("\n")
    character = getattr(error, "character", None)
    shown = f"U+{character:04X}" if isinstance(character, int) else "a character"
    return at(Place(file, line, col, col + 1), "E101", (), f"{shown} is not allowed in YAML", "delete it")


def _in_words(error: yaml.MarkedYAMLError) -> str:
    problem, context = error.problem or "this is not YAML", error.context or ""
    return f"{context}, {problem}" if problem.startswith("but ") else f"{problem} {context}".rstrip()
