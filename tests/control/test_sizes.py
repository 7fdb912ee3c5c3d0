"""What was measured is known again after a restart."""

import pytest

from appliance.control.sizes import KEPT, Sizes


def test_a_size_is_known_after_a_restart(tmp_path):
    path = tmp_path / "sizes.json"
    Sizes(path).note("a", 7)
    sizes = Sizes(path)
    sizes.note("b", 8)
    sizes.note("a", 9)
    assert [Sizes(path).get(name) for name in "abc"] == [9, 8, None]


def test_those_measured_longest_ago_are_forgotten(tmp_path):
    path = tmp_path / "sizes.json"
    sizes = Sizes(path)
    for number in range(KEPT):
        sizes.note(str(number), 1)
    sizes.note("0", 2)
    sizes.note("new", 1)
    assert [Sizes(path).get(name) for name in ("0", "1", "new")] == [2, None, 1]


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": "big"}', b"\xff"], ids=repr)
def test_a_broken_file_holds_nothing(tmp_path, content):
    path = tmp_path / "sizes.json"
    path.write_bytes(content)
    assert Sizes(path).get("a") is None


def test_a_directory_that_cannot_be_written_keeps_it_until_the_end(tmp_path):
    sizes = Sizes(tmp_path / "missing" / "sizes.json")
    sizes.note("a", 7)
    assert sizes.get("a") == 7
