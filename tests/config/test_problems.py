"""What a bad file is answered with, word for word."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.config import load
from appliance.config.codes import CODES
from appliance.config.problem import Place, Problem, Rejected, as_data, at, dotted, github, human
from tests.config import golden


@pytest.mark.parametrize("case", golden.cases("bad"), ids=lambda case: case.stem)
def test_a_bad_file_gets_exactly_these_problems(case: Path, here: Path) -> None:
    def problems(text: str) -> str:
        with pytest.raises(Rejected) as rejected:
            golden.read(text)
        return str(rejected.value)

    golden.hold(case, 1, problems, here)


def test_every_error_code_has_a_case_and_every_code_an_explanation() -> None:
    shown = {code for case in golden.cases("bad") for code in re.findall(r" error\[(\w+)\]", case.read_text())}
    elsewhere = {"W301", "W302"}
    assert shown | elsewhere == set(CODES)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "1:1 error[E107] the file is empty; the least is `version: 1` and one model", id="empty"),
        pytest.param(b"\xef\xbb\xbf\n", "1:1 error[E107] the file is empty", id="only a byte order mark"),
        pytest.param(b"version: 1\n# caf\xe9\n", "2:6 error[E108] not UTF-8; save it as UTF-8", id="latin-1"),
        pytest.param(
            None,
            "1:1 error[E108] cannot be read: No such file or directory; write one with `appliance init`, or",
            id="missing",
        ),
    ],
)
def test_a_file_without_readable_text_is_a_problem(content: bytes | None, problem: str, here: Path) -> None:
    path = Path("deploy.yaml")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Rejected) as rejected:
        load.read(path, environ={}, inspect=golden.inspect, memory_bytes=golden.GIB)
    assert str(rejected.value).startswith(f"deploy.yaml:{problem}")


ENDLESS = "it is a device or a pipe, not a file"


@pytest.mark.parametrize("file", ["/dev/zero", "./pipe"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            'security: {keys: {ci: {secret: "${file:FILE}"}}}',
            f"secret: the file FILE cannot be read: {ENDLESS}",
            id="key",
        ),
        pytest.param("include: [FILE]", f"cannot be read: {ENDLESS}", id="include"),
        pytest.param(
            "server: {tls: {cert: FILE, key: FILE}}", "server.tls.key: there is no file at", id="certificate"
        ),
        pytest.param("x-a: {}\nmodels: {a: {source: 'fake:FILE'}}", "source: there is no file at", id="script"),
        pytest.param("models: {a: {source: FILE}}", "source: there is no directory with a model at", id="model"),
        pytest.param(
            "models: {a: {source: smollm2-135m, warm: [FILE]}}", f"FILE cannot be read: {ENDLESS}", id="warm prompt"
        ),
        pytest.param(
            "models: {a: {source: smollm2-135m, template: {file: FILE}}}",
            f"FILE cannot be read: {ENDLESS}",
            id="template",
        ),
    ],
)
def test_what_may_never_end_is_not_read(text: str, problem: str, file: str, here: Path) -> None:
    os.mkfifo("pipe")
    with pytest.raises(Rejected) as rejected:
        golden.read(f"version: 1\n{text}\n".replace("FILE", file))
    assert problem.replace("FILE", file) in str(rejected.value)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(os.mkfifo, ENDLESS, id="a pipe nobody writes into"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), ENDLESS, id="a device"),
        pytest.param(lambda path: path.open("wb").truncate(2**40), "it is larger than 64 MiB", id="a terabyte"),
    ],
)
def test_a_deploy_file_that_cannot_be_held_is_a_problem(
    make: Callable[[Path], object], problem: str, here: Path
) -> None:
    make(Path("deploy.yaml"))
    with pytest.raises(Rejected, match=f"E108. cannot be read: {problem}"):
        load.read(Path("deploy.yaml"), environ={}, inspect=golden.inspect, memory_bytes=golden.GIB)


def test_a_byte_order_mark_is_no_problem(here: Path) -> None:
    assert golden.read("\ufeffversion: 1\nmodels: {demo: {source: smollm2-135m}}\n").models


def test_a_directory_is_no_deploy_file(here: Path) -> None:
    with pytest.raises(Rejected, match="cannot be read: Is a directory"):
        load.read(here, environ={}, inspect=golden.inspect, memory_bytes=golden.GIB)


def test_what_was_substituted_is_never_shown(here: Path) -> None:
    text = "version: 1\nmodels:\n  demo: {source: '${env:SECRET}/x', pin: '${env:SECRET}', load: '${env:SECRET}'}\n"
    with pytest.raises(Rejected) as rejected:
        golden.read(text)
    assert len(rejected.value.problems) == 3
    said = (
        str(rejected.value)
        + github(rejected.value.problems)
        + json.dumps(list(map(as_data, rejected.value.problems)))
    )
    assert "hunter2" not in said


def test_problems_are_sorted_by_place_and_said_once() -> None:
    first, second = _problem(2, 9), _problem(2, 3)
    assert Rejected([first, second, first]).problems == (second, first)


def test_a_caret_stands_under_the_fault_even_behind_tabs() -> None:
    problem = Problem("E102", "f", 7, 3, "a", "unknown key", "", 6, "\t\tkey: 1")
    assert human([problem]).splitlines()[1:] == ["    7 | \t\tkey: 1", "      | \t\t^^^"]


def test_github_gets_an_annotation_with_its_special_characters_escaped() -> None:
    problem = Problem("E102", "a,b:c.yaml", 4, 3, "models.x", "100% wrong\nreally", "stop", 5)
    assert github([problem]) == (
        "::error file=a%2Cb%3Ac.yaml,line=4,col=3,endColumn=5,title=E102::models.x: 100%25 wrong%0Areally; stop"
    )


def test_json_has_every_part_of_a_problem() -> None:
    assert as_data(at(Place("f", 4, 3, 5), "W301", ("a", 0), "message", "hint")) == {
        "code": "W301", "severity": "warning", "file": "f", "line": 4, "column": 3, "end_column": 5,
        "path": "a[0]", "message": "message", "hint": "hint",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (("models", "big", "stop", 0), "models.big.stop[0]"),
        (("aliases", "gpt-4*"), "aliases.gpt-4*"),
        (("models", "qwen2.5", "pin"), 'models."qwen2.5".pin'),
        (("a", ""), 'a.""'),
        ((), ""),
    ],
)
def test_a_path_reads_unambiguously(path: tuple[str | int, ...], shown: str) -> None:
    assert dotted(path) == shown


def _problem(line: int, col: int) -> Problem:
    return Problem("E102", "f", line, col, "path", "message")
