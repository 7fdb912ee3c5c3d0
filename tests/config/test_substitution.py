"""`${…}` within one scalar."""

import pytest

from appliance.config.problem import Place, Problem
from appliance.config.source import Scalar
from appliance.config.substitute import expand

ENVIRON = {"A": "alpha", "N": "5", "EMPTY": "", "DOLLAR": "${env:A}", "BYTES": "a\udcff"}
PLACE = Place("f", 3, 7, 20)


def read(path: str) -> str:
    if path == "~/key":
        return "secret\r\n"
    if path == "empty":
        return "\n"
    if path == "latin1":
        b"\xe9".decode("utf-8")
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("${env:A}", "alpha"),
        ("x${env:A}-${env:N}y", "xalpha-5y"),
        ("${env:NONE:-fallback}", "fallback"),
        ("${env:NONE:-}", ""),
        ("${env:NONE:-a:-b}", "a:-b"),
        ("${env:EMPTY:-fallback}", "fallback"),
        ("${env:A:-fallback}", "alpha"),
        ("${env:A:?needed}", "alpha"),
        ("${env:EMPTY}", ""),
        ("${file:~/key}", "secret"),
        ("${file:none:-fallback}", "fallback"),
        ("$$", "$"),
        ("$${env:A}", "${env:A}"),
        ("$$${env:A}", "$alpha"),
        ("costs $5", "costs $5"),
        ("${env:DOLLAR}", "${env:A}"),
    ],
)
def test_references_are_replaced_once(text: str, expanded: str) -> None:
    scalar = expand(Scalar(text, True, PLACE), ("a",), ENVIRON, read)
    assert isinstance(scalar, Scalar)
    assert scalar.text == expanded
    assert scalar.written == (text if "${" in text.replace("$$", "") else None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${env:NONE}", "the environment variable NONE is not set"),
        ("${env:NONE:?set NONE first}", "set NONE first"),
        ("${env:EMPTY:?set EMPTY}", "set EMPTY"),
        ("${env:NONE:?}", "NONE is needed"),
        ("${env:1X}", "`1X` is no name of an environment variable"),
        ("${file:none}", "the file none cannot be read: No such file or directory"),
        ("${file:latin1}", "the file latin1 cannot be read: not readable as UTF-8"),
        ("${file:empty:?put a key into it}", "put a key into it"),
        ("${A}", "`${A}` is no substitution"),
        ("${}", "`${}` is no substitution"),
        ("${env:BYTES}", "${env:BYTES} gives a text with a NUL or broken character"),
        ("${env:}", "`${env:}` is no substitution"),
        ("${env:A", "`${env:A` is no substitution"),
        ("${env:NONE:-${env:A}}", "`${env:NONE:-${env:A}` is no substitution"),
    ],
)
def test_what_cannot_be_replaced_is_a_problem_at_the_scalar(text: str, message: str) -> None:
    problem = expand(Scalar(text, False, PLACE), ("models", "demo"), ENVIRON, read)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.line, problem.col, problem.path) == ("E109", 3, 7, "models.demo")
    assert problem.message == message
