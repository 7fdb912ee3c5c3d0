"""What was learned of families' tokenizers is known again after a restart."""

from pathlib import Path

import pytest

from appliance.control.calibration import BOUNDS
from appliance.control.scales import MOST_FAMILIES, Scales


def test_a_scale_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "scales.json"
    scales = Scales(path)
    scales.read("qwen3", 1000, 1300)
    scales.read("llama3", 10, 1300)
    scales.save()
    assert Scales(path).known == {"qwen3": 1.3}


def test_what_was_not_learned_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "scales.json"
    Scales(path).save()
    assert not path.exists()


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"a": "big"}', b"\xff", b'{"a": 1e9}', b'{"a": 0}', b'{"a": null}'], ids=repr
)
def test_a_broken_file_holds_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "scales.json"
    path.write_bytes(content)
    assert Scales(path).known == {}


def test_a_directory_that_cannot_be_written_keeps_it_until_the_end(tmp_path: Path) -> None:
    scales = Scales(tmp_path / "missing" / "scales.json")
    scales.read("a", 1000, 10**9)
    scales.save()
    assert scales.known == {"a": BOUNDS[1]}


def test_there_is_an_end_of_families() -> None:
    scales = Scales()
    for number in range(MOST_FAMILIES + 5):
        scales.read(str(number), 1000, 1000)
    assert len(scales.known) == MOST_FAMILIES
