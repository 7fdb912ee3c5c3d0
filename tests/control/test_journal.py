"""Generations on disk: what was written is found again, and what was half written is not."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from appliance.config.secret import Secret
from appliance.control.journal import KEPT, Generation, Journal, plain


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def entry(number: int) -> Generation:
    return Generation(
        number=number,
        time=1_800_000_000.5,
        cause="file",
        digest=f"digest {number}",
        sources={"/etc/deploy.yaml": f"version: 1 # {number} \ufeff\n"},
        resolved={"models": {"m": {"idle_unload": "never"}}},
        changes=("+ models.m",),
    )


def test_what_was_written_is_found_again(journal: Journal) -> None:
    journal.write(entry(1))
    journal.write(entry(2))
    assert journal.newest() == entry(2)
    assert journal.get(1) == entry(1)
    assert journal.history() == [entry(2), entry(1)]
    assert entry(1).held == {"/etc/deploy.yaml": "version: 1 # 1 \ufeff\n".encode()}


def test_a_new_journal_is_empty(journal: Journal) -> None:
    assert (journal.newest(), journal.get(1), journal.history()) == (None, None, [])


def test_the_last_twenty_are_kept(journal: Journal, tmp_path: Path) -> None:
    for number in range(1, KEPT + 6):
        journal.write(entry(number))
    assert [found.number for found in journal.history()] == list(range(KEPT + 5, 5, -1))
    assert len(list(tmp_path.iterdir())) == KEPT
    assert journal.get(5) is None


def test_only_its_owner_may_read_it(journal: Journal, tmp_path: Path) -> None:
    journal.write(entry(1))
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


@pytest.mark.parametrize("cut", ["nothing", "first line", "half", "last byte", "flipped"])
def test_a_damaged_generation_is_passed_over_and_removed(journal: Journal, tmp_path: Path, cut: str) -> None:
    journal.write(entry(1))
    journal.write(entry(2))
    damaged = tmp_path / "00000002.generation"
    data = damaged.read_bytes()
    parts = {"nothing": b"", "first line": data[:64], "half": data[: len(data) // 2], "last byte": data[:-1]}
    damaged.write_bytes(parts.get(cut, data.replace(b"file", b"fire")))
    assert journal.newest() == entry(1)
    journal.clean()
    assert not damaged.exists()
    assert journal.newest() == entry(1)


def test_what_a_killed_process_left_is_removed(journal: Journal, tmp_path: Path) -> None:
    journal.write(entry(1))
    (tmp_path / ".00000002.4711").write_bytes(b"half of")
    journal.clean()
    assert [path.name for path in tmp_path.iterdir()] == ["00000001.generation"]


WRITER = """
import sys
from pathlib import Path
from appliance.control.journal import Generation, Journal
journal = Journal(Path(sys.argv[1]))
for number in range(1, 100_000):
    sources = {"/deploy.yaml": "x" * 100_000}
    journal.write(Generation(number=number, time=0, cause="", digest="", sources=sources, resolved={}))
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_leaves_a_valid_newest_generation(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for stop_after in (1, 2, 5, 9, 14):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as writer:
            assert writer.stdout is not None
            written = next(int(line) for line in writer.stdout if int(line) == stop_after)
            writer.kill()
        journal.clean()
        newest = journal.newest()
        assert newest is not None
        assert newest.number >= written
        assert len(newest.sources["/deploy.yaml"]) == 100_000


class Sly(str):
    """A secret that pretends to be text."""


class Holder(msgspec.Struct):
    key: Secret


PLAIN = {
    "a secret": (Secret("sk-planted"), "<Secret>"),
    "a secret in a list": ([Secret("sk-planted"), 1], ["<Secret>", 1]),
    "a secret in a mapping": ({"key": Secret("sk-planted")}, {"key": "<Secret>"}),
    "a secret in a struct": (Holder(Secret("sk-planted")), {"key": "<Secret>"}),
    "text of another type": (Sly("sk-planted"), "<Sly>"),
    "never": (float("inf"), "never"),
    "bytes": (b"sk-planted", "<bytes>"),
}


@pytest.mark.parametrize(("value", "shown"), PLAIN.values(), ids=PLAIN.keys())
def test_a_resolved_form_shows_only_what_is_harmless(value: object, shown: object) -> None:
    assert plain(value) == shown
