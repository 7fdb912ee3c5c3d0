"""Where patterns are found in split text, and how little is held back."""

import random

import pytest

from appliance.text.scanner import Scan, Scanner


def found(patterns: list[str], pieces: list[str]) -> list[str | tuple[str]]:
    """Literals as text, matches as 1-tuples; adjacent literals joined."""
    scanner, out = Scanner(patterns), []

    def take(scan: Scan) -> str:
        if scan.literal:
            out.append(out.pop() + scan.literal if out and isinstance(out[-1], str) else scan.literal)
        if scan.match is not None:
            out.append((scan.match,))
        return scan.rest

    for piece in pieces:
        while piece:
            piece = take(scanner.scan(piece))
    while (scan := scanner.close()) != Scan("", None, ""):
        rest = take(scan)
        while rest:
            rest = take(scanner.scan(rest))
    return out


def naive(patterns: list[str], text: str) -> list[str | tuple[str]]:
    out, literal = [], ""
    while text:
        hits = [(text.find(p), len(p), p) for p in patterns if p in text]
        if not hits:
            break
        at, size, pattern = min(hits)
        literal += text[:at]
        out += [literal, (pattern,)] if literal else [(pattern,)]
        literal, text = "", text[at + size :]
    return [*out, literal + text] if literal + text else out


@pytest.mark.parametrize(
    ("patterns", "text", "expected"),
    [
        pytest.param(["STOP"], "go STOP!", ["go ", ("STOP",), "!"], id="one in the middle"),
        pytest.param(["b", "abc"], "abc", [("abc",)], id="leftmost beats the one complete first"),
        pytest.param(["b", "abc"], "abd", ["a", ("b",), "d"], id="the inner one, when the outer does not come"),
        pytest.param(["ab", "abc"], "abc", [("ab",), "c"], id="at one place the shortest"),
        pytest.param(["aab"], "aaab", ["a", ("aab",)], id="a false start overlaps the match"),
        pytest.param(["aa"], "aaa", [("aa",), "a"], id="matches do not overlap"),
        pytest.param(["b", "abc"], "ab", ["a", ("b",)], id="the end decides for the inner one"),
        pytest.param(["<tag>"], "x<ta", ["x<ta"], id="a cut pattern is text"),
        pytest.param([], "text", ["text"], id="no patterns"),
        pytest.param(["", "x"], "axb", ["a", ("x",), "b"], id="an empty pattern is none"),
        pytest.param(["🎉"], "a🎉🎉", ["a", ("🎉",), ("🎉",)], id="wide characters"),
    ],
)
def test_finds_the_same_matches_however_the_text_is_split(patterns, text, expected):
    assert found(patterns, [text]) == expected
    assert found(patterns, list(text)) == expected
    for at in range(1, len(text)):
        assert found(patterns, [text[:at], text[at:]]) == expected


def test_agrees_with_searching_the_whole_text():
    draw = random.Random(7)
    for _ in range(3000):
        patterns = ["".join(draw.choices("ab", k=draw.randint(1, 5))) for _ in range(draw.randint(1, 4))]
        text = "".join(draw.choices("abc", weights=(5, 5, 1), k=draw.randint(0, 24)))
        cuts = sorted(draw.sample(range(len(text) + 1), k=min(len(text), draw.randint(0, 6))))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert found(patterns, pieces) == naive(patterns, text), (patterns, pieces)


def test_holds_back_only_what_may_become_a_match():
    patterns = ["STOP", "TOPAZ"]
    scanner, text = Scanner(patterns), "a STO STOTOPA TOPASTO S"
    fed = released = ""
    for char in text:
        fed += char
        released += scanner.scan(char).literal
        held = fed[len(released) :]
        longest = next((n for n in range(5, 0, -1) if any(p.startswith(fed[-n:]) for p in patterns)), 0)
        assert len(held) == min(longest, len(fed))


def test_a_long_run_of_false_starts_is_linear():
    scanner = Scanner(["a" * 50 + "b"])
    released = sum(len(scanner.scan("a").literal) for _ in range(20_000))
    assert released == 20_000 - 50
