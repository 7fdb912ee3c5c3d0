"""Where a change of the deploy file would show."""

import os

import pytest

from appliance.control.files import chain, stamps, watched


def test_a_plain_file_is_watched_in_its_directory(tmp_path):
    file = tmp_path / "deploy.yaml"
    file.write_text("")
    assert watched([str(file)]).directories == {str(tmp_path)}
    assert set(chain(str(file))) == {str(file)}


def test_each_link_on_the_way_is_watched_where_it_stands(tmp_path):
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "deploy.yaml").write_text("")
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "etc").mkdir()
    link = tmp_path / "etc" / "deploy.yaml"
    link.symlink_to("../..data/deploy.yaml")
    assert watched([str(link)]).directories == {str(tmp_path / "etc"), str(tmp_path), str(tmp_path / "v1")}
    assert {str(link), str(tmp_path / "..data"), str(tmp_path / "v1" / "deploy.yaml")} == set(chain(str(link)))


def test_a_circle_of_links_ends(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert str(tmp_path / "b") in chain(str(tmp_path / "a"))


def test_a_directory_that_is_not_there_is_left_out(tmp_path):
    assert watched([str(tmp_path / "no" / "deploy.yaml")]).directories == frozenset()


CHANGES = {
    "write": lambda file, other: file.write_text("longer"),
    "replace": lambda file, other: other.rename(file),
    "remove": lambda file, other: file.unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_stamps_change_with_the_file(tmp_path, change):
    file, other = tmp_path / "deploy.yaml", tmp_path / "other"
    file.write_text("one")
    other.write_text("two")
    os.utime(other, ns=(0, file.stat().st_mtime_ns))
    before = stamps([str(file)])
    change(file, other)
    assert stamps([str(file)]) != before
