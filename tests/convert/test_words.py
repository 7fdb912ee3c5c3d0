"""Every word of a command line is accounted for."""

import pytest

from appliance.convert import words
from appliance.convert.target import Key, Reason, rows, table
from appliance.convert.values import text

TABLE = table(
    rows("--one", Key("M.source", text)),
    rows("--other-flag", Key("M.source", text)),
    rows("--switch -s", Key("M.source", text), "none"),
    rows("--many", Key("M.source", text), "many"),
    rows("--maybe", Reason("why not"), "maybe"),
)


@pytest.mark.parametrize(
    ("given", "found", "loose", "unknown"),
    [
        pytest.param("--one a", [("--one", "a")], [], [], id="a value follows"),
        pytest.param("--one=a=b", [("--one", "a=b")], [], [], id="a value after an equals sign"),
        pytest.param("--one -1", [("--one", "-1")], [], [], id="a negative number is no flag"),
        pytest.param("--one", [("--one", "")], [], [], id="a value that is missing is empty"),
        pytest.param("--switch a", [("--switch", True)], ["a"], [], id="a switch takes nothing"),
        pytest.param("-s --one a", [("-s", True), ("--one", "a")], [], [], id="a short flag"),
        pytest.param(
            "--many a b --switch", [("--many", ["a", "b"]), ("--switch", True)], [], [], id="several values"
        ),
        pytest.param("--maybe --switch", [("--maybe", True), ("--switch", True)], [], [], id="nothing may follow"),
        pytest.param("--maybe off", [("--maybe", "off")], [], [], id="something may follow"),
        pytest.param("--no-maybe", [("--maybe", False)], [], [], id="switched off"),
        pytest.param("--other a", [("--other-flag", "a")], [], [], id="a flag cut short"),
        pytest.param("--o a", [], [], ["--o"], id="a flag cut too short"),
        pytest.param("--else a --one b", [("--one", "b")], [], ["--else"], id="an unknown flag keeps its value"),
        pytest.param("model --one a", [("--one", "a")], ["model"], [], id="a word of no flag"),
    ],
)
def test_words_become_settings(
    given: str, found: list[tuple[str, object]], loose: list[str], unknown: list[str]
) -> None:
    read = words.read(given.split(), TABLE)
    assert [(item.name, item.value) for item, _ in read.found] == found
    assert (read.loose, read.unknown) == (loose, unknown)
