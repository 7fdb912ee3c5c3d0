"""Golden conversions: a file of another tool, or `$` and a command line; then the deploy file it becomes."""

from pathlib import Path

import pytest

from tests.config.golden import DIVIDER, hold
from tests.convert.world import converted, deployment

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
IDS = [case.stem for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_configuration_becomes_a_deploy_file(case: Path, tmp_path: Path) -> None:
    hold(case, 1, lambda given: converted(given).text, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_was_converted_has_no_problem(case: Path, tmp_path: Path) -> None:
    given = case.read_text(encoding="utf-8").split(f"{DIVIDER}\n")[0]
    found = deployment(converted(given).text, tmp_path)
    assert found.models
    assert not found.warnings
