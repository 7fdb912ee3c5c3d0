"""Prefixes that outlive their engine: real processes on one directory, one after the other."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from appliance.engine.disk_entry import ARRAYS, MANIFEST, scan
from appliance.vocab.event import Finished, Started
from appliance.vocab.spec import DiskSettings, KvForm
from appliance.wire import frames
from tests.engine.harness import SETTINGS, Engine, running_engine, submission, write_script

KEY = "weights"
LONG = "a text of more than forty letters, which are as many tokens. "
MIB = 1 << 20


def settings(folder: Path, *, bytes: int = MIB, ttl: float = 3600.0, key: str = KEY, **more: Any) -> Any:
    disk = DiskSettings(path=str(folder / "kv"), bytes=bytes, ttl=ttl, key=key)
    return msgspec.structs.replace(SETTINGS, disk=disk, **more)


def serve(folder: Path, *prompts: str, namespace: str = "", **how: Any) -> list[int]:
    """The cached tokens of each prompt, answered one after the other by an engine of its own."""
    script = write_script(folder, token_bytes=1, **how.pop("script", {}))
    with running_engine() as engine:
        engine.start(script, settings(folder, **how))
        cached = [ask(engine, id, prompt, namespace) for id, prompt in enumerate(prompts, 1)]
        leave(engine)
    return cached


def ask(engine: Engine, id: int, prompt: str, namespace: str = "") -> int:
    engine.send(frames.Submit(submission(id, prompt, namespace=namespace)))
    end = engine.end(id)
    assert isinstance(end, Finished)
    (started,) = (event for event in engine.events(id) if isinstance(event, Started))
    assert started.cached_tokens == end.usage.cached_tokens
    return started.cached_tokens


def leave(engine: Engine) -> None:
    """What a server does that unloads a model."""
    engine.link.shutdown(1)
    while engine.receive():
        pass
    assert engine.process.wait(60) == 0


def entries(folder: Path) -> list[Any]:
    return scan(folder / "kv" / KEY, lambda *lost: pytest.fail(f"broken: {lost}"))


def test_a_prefix_survives_the_engine_that_computed_it(tmp_path):
    assert serve(tmp_path, LONG) == [0]
    (entry,) = entries(tmp_path)
    first, second = serve(tmp_path, LONG, LONG + "And more?")
    assert first >= len(LONG)
    assert second >= len(LONG)
    assert entry.length > len(LONG)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"namespace": "other"}, id="in another namespace"),
        pytest.param({"key": "other"}, id="with other weights"),
        pytest.param({"prefix_bytes": 0}, id="where no prefixes are kept"),
    ],
)
def test_it_is_no_hit(tmp_path, other):
    serve(tmp_path, LONG)
    assert serve(tmp_path, LONG, **other) == [0]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            lambda folder: (folder / ARRAYS).write_bytes(bytes((folder / ARRAYS).stat().st_size)), id="zeros"
        ),
        pytest.param(lambda folder: (folder / ARRAYS).write_bytes(b""), id="emptied"),
        pytest.param(lambda folder: (folder / MANIFEST).write_bytes(b"{"), id="half a manifest"),
    ],
)
def test_a_broken_entry_is_computed_anew_and_replaced(tmp_path, spoil):
    serve(tmp_path, LONG)
    (entry,) = entries(tmp_path)
    spoil(entry.folder)
    assert serve(tmp_path, LONG) == [0]
    assert entries(tmp_path) == [entry]
    assert serve(tmp_path, LONG)[0] >= len(LONG)


def test_a_broken_entry_is_gone_before_the_answer_begins(tmp_path):
    serve(tmp_path, LONG)
    (entry,) = entries(tmp_path)
    (entry.folder / ARRAYS).write_bytes(b"\0" * entry.nbytes)
    with running_engine() as engine:
        engine.start(write_script(tmp_path, token_bytes=1, endless=True, step_ms=5), settings(tmp_path))
        engine.send(frames.Submit(submission(1, LONG)))
        engine.until(lambda: engine.tokens(1))
        assert not entry.folder.exists()


def test_the_cap_keeps_what_was_used_last(tmp_path):
    serve(tmp_path, LONG)
    (entry,) = entries(tmp_path)
    size = sum(file.stat().st_size for file in entry.folder.iterdir())
    serve(tmp_path, "another " + LONG, bytes=int(1.5 * size))
    (left,) = entries(tmp_path)
    assert left.tokens != entry.tokens


def test_what_was_not_used_for_its_time_to_live_is_forgotten(tmp_path):
    serve(tmp_path, LONG, ttl=0)
    assert entries(tmp_path) == []


def test_the_next_turn_of_a_conversation_replaces_the_one_before(tmp_path):
    serve(tmp_path, LONG)
    serve(tmp_path, LONG + "And more?")
    serve(tmp_path, LONG)
    lengths = [entry.length for entry in entries(tmp_path)]
    assert len(lengths) == len(set(lengths)) <= 2


def test_a_cache_that_cannot_be_trimmed_comes_back_exactly(tmp_path):
    script = {"trim": False}
    serve(tmp_path, LONG, script=script)
    assert all(entry.shortest == entry.length for entry in entries(tmp_path))
    assert serve(tmp_path, LONG + "!", script=script) == [0]


def test_requests_that_wait_for_one_entry_read_it_once_and_can_be_cancelled(tmp_path):
    serve(tmp_path, LONG)
    with running_engine() as engine:
        engine.start(write_script(tmp_path, token_bytes=1), settings(tmp_path))
        engine.send(*(frames.Submit(submission(id, LONG)) for id in range(1, 9)), frames.Cancel(8))
        for id in range(1, 9):
            end = engine.end(id)
            assert isinstance(end, Finished)
            assert end.reason == "cancelled" or end.usage.cached_tokens >= len(LONG)


def test_the_directory_may_change_while_it_runs(tmp_path):
    with running_engine() as engine:
        engine.start(write_script(tmp_path, token_bytes=1), SETTINGS)
        ask(engine, 1, LONG)
        engine.send(frames.Configure(settings(tmp_path)))
        ask(engine, 2, "something else, " + LONG)
        engine.send(frames.Configure(settings(tmp_path, bytes=2 * MIB)))
        leave(engine)
    assert [entry.length > len(LONG) for entry in entries(tmp_path)] == [True]


def test_a_directory_that_cannot_be_written_costs_no_answer(tmp_path):
    (tmp_path / "kv").write_text("a file")
    assert serve(tmp_path, LONG, LONG)[1] >= len(LONG)


def test_another_form_of_keys_and_values_waits_for_what_runs_and_finds_none_of_the_old_prefixes(tmp_path):
    with running_engine() as engine:
        engine.start(write_script(tmp_path, token_bytes=1, step_ms=2), settings(tmp_path))
        engine.send(frames.Submit(submission(1, LONG)))
        engine.until(lambda: engine.tokens(1))
        engine.send(
            frames.Configure(settings(tmp_path, kv=KvForm(bits=8))),
            frames.Submit(submission(2, LONG)),
        )
        ends = [engine.end(id) for id in (1, 2)]
        assert [end.usage.cached_tokens for end in ends] == [0, 0]
        order = [part.id for frame in engine.frames if isinstance(frame, frames.Events) for part in frame.sequences]
        assert order == sorted(order)
        leave(engine)
    assert {folder.name for folder in (tmp_path / "kv").iterdir()} <= {KEY, f"{KEY}-kv8"}
    assert scan(tmp_path / "kv" / f"{KEY}-kv8", lambda *lost: None)
