"""Where a change of the deploy file would show."""

from appliance.control.files import chain, watched


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


def test_every_entry_of_a_directory_concerns_the_file_that_includes_it(tmp_path):
    (tmp_path / "conf.d").mkdir()
    found = watched([str(tmp_path / "deploy.yaml"), str(tmp_path / "conf.d")])
    assert found.directories == {str(tmp_path), str(tmp_path / "conf.d")}
    assert found.concerns(str(tmp_path / "conf.d" / "new.yaml"))
    assert found.concerns(str(tmp_path / "deploy.yaml"))
    assert not found.concerns(str(tmp_path / "notes.txt"))
