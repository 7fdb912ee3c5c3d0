"""What one prefix on disk is, what is no whole one, and which have to go."""

import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from appliance.engine import disk_entry
from appliance.engine.disk_entry import ARRAYS, MANIFEST, BrokenEntry, Frozen, Kept, Tensor, surplus

TOKENS = (5, 6, 7)


def frozen() -> Frozen:
    numbers = memoryview(bytes(range(16)))
    return Frozen(
        {"a": Tensor("U32", (2, 2), numbers), "b": Tensor("U8", (0,), memoryview(b""))}, ["x", {"array": "a"}]
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "key"


def put(home: Path, namespace: str = "me", tokens: tuple[int, ...] = TOKENS) -> disk_entry.Entry:
    return disk_entry.write(home, namespace, tokens, 0, frozen())


def test_what_is_written_is_read_back_and_any_safetensors_reader_knows_it(home):
    written = put(home)
    assert disk_entry.read(written.folder) == written
    disk_entry.verify(written.folder)
    assert load_file(written.arrays)["a"].tobytes() == bytes(range(16))
    assert disk_entry.scan(home, lambda folder, why: pytest.fail(why)) == [written]
    assert (written.length, written.shortest, written.namespace) == (3, 0, "me")


def test_nobody_else_may_look_into_it(home):
    assert put(home).folder.stat().st_mode & 0o077 == home.stat().st_mode & 0o077 == 0


def test_prefixes_of_two_namespaces_do_not_meet(home):
    assert put(home, "a").folder != put(home, "b").folder
    assert len(disk_entry.scan(home, lambda *lost: None)) == 2


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def say(key: str, value: object):
    def change_manifest(folder: Path) -> None:
        file = folder / MANIFEST
        file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))

    return change_manifest


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda folder: cut(folder / ARRAYS), id="arrays cut short"),
        pytest.param(lambda folder: (folder / ARRAYS).unlink(), id="no arrays"),
        pytest.param(lambda folder: cut(folder / MANIFEST), id="a manifest cut short"),
        pytest.param(lambda folder: (folder / MANIFEST).unlink(), id="no manifest"),
        pytest.param(lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe"), id="a manifest of noise"),
        pytest.param(say("version", 0), id="another version"),
        pytest.param(say("key", "other"), id="of other weights"),
        pytest.param(say("tokens", "abc"), id="tokens that are none"),
    ],
)
def test_what_is_no_whole_entry_is_skipped_and_removed(home, spoil):
    whole, broken = put(home, "whole"), put(home, "broken")
    spoil(broken.folder)
    lost: list[Path] = []
    assert disk_entry.scan(home, lambda folder, why: lost.append(folder)) == [whole]
    assert lost == [broken.folder]
    assert not broken.folder.exists()


def test_a_changed_byte_is_found_by_the_checksum(home):
    entry = put(home)
    change(entry.arrays)
    with pytest.raises(BrokenEntry, match="checksum"):
        disk_entry.verify(entry.folder)


def test_half_an_entry_of_a_writer_that_is_gone_is_removed_and_that_of_a_living_one_is_not(home):
    home.mkdir()
    gone, alive = home / ".writing-4194305-x", home / f".writing-{os.getppid()}-x"
    gone.mkdir()
    alive.mkdir()
    assert disk_entry.scan(home, lambda *lost: pytest.fail("not an entry")) == []
    assert (gone.exists(), alive.exists()) == (False, True)


def test_writing_where_nothing_can_be_written_leaves_nothing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OSError):
        put(blocked)
    assert list(tmp_path.iterdir()) == [blocked]


def test_the_same_prefix_again_takes_the_place_of_the_first(home):
    first = put(home)
    change(first.arrays)
    disk_entry.verify(put(home).folder)
    assert len(list(home.iterdir())) == 1


def test_removing_what_is_gone_is_fine(home):
    entry = put(home)
    shutil.rmtree(entry.folder)
    disk_entry.remove(entry.folder)
    disk_entry.touch(entry.folder)


@pytest.mark.parametrize(
    ("cap", "oldest", "gone"),
    [
        pytest.param(30, 0, "", id="all fit"),
        pytest.param(29, 0, "a", id="the least recently used goes first"),
        pytest.param(10, 0, "ab", id="and the next"),
        pytest.param(0, 0, "abc", id="no room at all"),
        pytest.param(30, 2.5, "ab", id="what was not used for too long goes anyway"),
    ],
)
def test_what_is_over_the_cap_or_too_old_goes(cap, oldest, gone):
    entries = [Kept(Path("c"), 3, 10), Kept(Path("a"), 1, 10), Kept(Path("b"), 2, 10)]
    assert "".join(map(str, surplus(entries, cap, oldest))) == gone


def test_the_cap_counts_every_key_under_the_directory(tmp_path):
    put(tmp_path / "one")
    put(tmp_path / "two")
    assert len(disk_entry.kept(tmp_path)) == 2
    assert disk_entry.kept(tmp_path / "nothing here") == []
