"""A working directory with the files that golden cases name."""

from pathlib import Path

import pytest

from tests.config import golden


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    golden.lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
