"""Which fetched models take how much room, and which of them go."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from appliance.config.deployment import Source
from appliance.models import fetched
from appliance.models.fetched import Fetched, too_much
from appliance.models.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models", tmp_path / "hub")


def repository(name: str, revision: str = "main") -> Source:
    return Source("hf", f"owner/{name}", f"hf:owner/{name}@{revision}", revision)


def put(store: Store, source: Source, size: int, used: float) -> Path:
    """As a fetch leaves it: files, a link to one of them, and a note."""
    directory = store.directory(source)
    assert directory is not None
    (directory / "blobs").mkdir(parents=True)
    (directory / "blobs" / "weights").write_bytes(bytes(size))
    (directory / "snapshots").mkdir()
    (directory / "snapshots" / "model").symlink_to("../blobs/weights")
    fetched.note(source, store)
    os.utime(store.note(source), (used, used))
    return directory


GONE: dict[str, tuple[int, set[str], list[str]]] = {
    "nothing while there is room": (600, set(), []),
    "the oldest": (599, set(), ["a"]),
    "as many as it takes": (300, set(), ["a", "b"]),
    "all": (0, set(), ["a", "b", "c"]),
    "none that is needed": (599, {"a"}, ["b"]),
    "no more than there is": (0, {"a", "b", "c"}, []),
}


@pytest.mark.parametrize(("limit", "needed", "gone"), GONE.values(), ids=GONE)
def test_who_was_used_least_recently_goes_first(limit: int, needed: set[str], gone: list[str]) -> None:
    sizes = {"c": (300, 3.0), "a": (100, 1.0), "b": (200, 2.0)}
    found = [Fetched(Path(name), (repository(name),), size, used) for name, (size, used) in sizes.items()]
    assert [model.directory.name for model in too_much(found, limit, set(map(Path, needed)))] == gone


def test_models_are_listed_with_their_size_and_the_one_used_last_first(store: Store) -> None:
    put(store, repository("old"), 1000, 100.0)
    put(store, repository("new"), 5000, 200.0)
    first, second = fetched.fetched(store)
    assert (first.name, second.name) == ("hf:owner/new@main", "hf:owner/old@main")
    assert 5000 < first.bytes < 5100, "the link counts as a link"
    fetched.touch(repository("old"), store)
    assert fetched.fetched(store)[0].name == "hf:owner/old@main"


def test_revisions_of_a_repository_go_together(store: Store) -> None:
    put(store, repository("m"), 10, 100.0)
    fetched.note(repository("m", "v2"), store)
    (model,) = fetched.fetched(store)
    assert model.used > 100.0
    assert fetched.trim(store, 0, [repository("m", "v2")]) == []
    assert fetched.trim(store, 0, []) == [model]
    assert not model.directory.exists()
    assert fetched.fetched(store) == []


def test_what_others_put_there_is_left_alone(store: Store) -> None:
    theirs = put(store, repository("theirs"), 1000, 1.0)
    store.note(repository("theirs")).unlink()
    assert fetched.trim(store, 0, []) == []
    assert theirs.is_dir()


def test_a_note_of_something_elsewhere_removes_nothing(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    store.notes.mkdir(parents=True)
    elsewhere = json.dumps({"source": "hf:a/b", "directory": str(tmp_path / "mine")})
    for name, text in {"a": elsewhere, "b": "[]", "c": "{"}.items():
        (store.notes / f"{name}.json").write_text(text)
    assert fetched.trim(store, 0, []) == []
    assert (tmp_path / "mine").is_dir()


def test_one_that_is_being_fetched_stays(store: Store) -> None:
    directory = put(store, repository("m"), 10, 1.0)
    lock = store.lock(repository("m"))
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert fetched.trim(store, 0, []) == []
    assert directory.is_dir()
    assert len(fetched.trim(store, 0, [])) == 1
