"""What stays of the prefix of an answer that had no numbers: none in memory, on disk and of what is kept warm."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from appliance.engine.backend import Sampled, Step, StepResult
from appliance.engine.disk_entry import BrokenEntry, read
from appliance.engine.disk_tier import DiskTier
from appliance.engine.inbox import Arrival, Farewell, Inbox
from appliance.engine.loop import Loop
from appliance.engine.prefix_cache import PINNED, PrefixCache
from appliance.engine.warming import Warmer
from appliance.vocab.event import Event, Failed, Finished, Started
from appliance.vocab.request import Message
from appliance.vocab.spec import ChatPrompt, DiskSettings
from tests.engine.driving import Drive

LONG = "a text of more than forty letters, which are as many tokens. "
OTHER = "some other text, of more than forty letters as well. "


def system(text: str) -> ChatPrompt:
    return ChatPrompt(messages=(Message(role="system", content=text),))


def while_not(holds: Callable[[], object], act: Callable[[], None]) -> None:
    """Do something again and again until something is the case: for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never is"
        act()


class _Step:
    def __init__(self, step: Step, broken: Callable[[int], bool]) -> None:
        self._step, self._broken, self.begin = step, broken, step.begin

    def wait(self) -> StepResult:
        result = self._step.wait()
        failed = {id: "its numbers are none" for id in result.sampled if self._broken(id)}
        return replace(result, sampled={**result.sampled, **dict.fromkeys(failed, Sampled(0))}, failed=failed)


class Kept(Drive):
    """Prefixes are kept on disk too, and prompts warm. The answers of which `broken` holds fail."""

    def __init__(
        self, folder: Path, *warm: ChatPrompt, broken: Callable[[int], bool] = lambda id: id == 1, text: str = "abc"
    ) -> None:
        super().__init__(folder, prefix=10_000, text=text)
        launch = self.device.launch
        self.device.launch = lambda batch: _Step(launch(batch), broken)  # type: ignore[method-assign]
        self.inbox = Inbox()
        self.tier = DiskTier(self.device.freezer(), self.inbox.post)
        self.tier.configure(DiskSettings(path=str(folder / "kv"), bytes=1 << 20, ttl=3600, key="weights"))
        self.home = folder / "kv" / "weights"
        self.scheduler.configure(msgspec.structs.replace(self.settings, warm=warm))
        self.scheduler.prefixes = PrefixCache(10_000, self.tier)
        self.warmer = Warmer(
            self.tokenizer.render, self.tokenizer, lambda: 4096, lambda sequence: self.inbox.post(Arrival(sequence))
        )
        self.loop = Loop(self.device, self.scheduler, self.emitted.append, self.tier, self.warmer.warm)

    def until(self, holds: Callable[[], object]) -> None:
        """Turn, and take what threads say, until something is the case."""
        while_not(holds, lambda: self.loop.turn(self.inbox.drain(block=False)))

    def ask(self, id: int, prompt: str | ChatPrompt) -> Event:
        """The end of an answer."""
        self.turn(self.asked(id, prompt))
        self.until(lambda: self.ended(id))
        return self.events(id)[-1]

    def asked(self, id: int, prompt: str | ChatPrompt) -> Arrival:
        if isinstance(prompt, str):
            return self.arrival(id, prompt)
        arrival = self.arrival(id, "")
        arrival.sequence.known = self.tokenizer.render(prompt)
        arrival.sequence.prompt_length = len(arrival.sequence.known)
        arrival.sequence.limit += len(arrival.sequence.known)
        return arrival

    def begun(self, id: int) -> int:
        """The cached tokens of an answer."""
        (started,) = (event for event in self.events(id) if isinstance(event, Started))
        return started.cached_tokens

    def written(self) -> None:
        """Have all on disk that is worth it."""
        self.loop.turn([Farewell()])
        self.until(lambda: self.tier.flush(0))

    def on_disk(self) -> list[str]:
        """How the prefixes there begin; one that is half written or removed is none."""
        found = []
        for folder in self.home.glob("[!.]*"):
            with suppress(BrokenEntry, OSError):
                found.append(self.tokenizer.text(read(folder).tokens)[:10])
        return sorted(found)

    def pinned(self, prompt: ChatPrompt) -> Any:
        """What is kept warm of this prompt."""
        tokens = [*self.tokenizer.render(prompt), 0]
        match = self.scheduler.prefixes.match(tokens, PINNED)
        return match.snapshot if match.length >= len(tokens) - 20 else None


def told(prompt: ChatPrompt, *, text: str = "hello") -> ChatPrompt:
    return ChatPrompt(messages=(*prompt.messages, Message(role="user", content=text)))


# ---- on disk
def test_a_prefix_that_was_written_is_removed_and_others_stay(tmp_path: Path) -> None:
    drive = Kept(tmp_path)
    drive.ask(2, OTHER)
    drive.ask(3, LONG)
    drive.written()
    assert drive.on_disk() == [LONG[:10], OTHER[:10]]
    assert isinstance(drive.ask(1, LONG + "And more?"), Failed)
    drive.until(lambda: drive.on_disk() == [OTHER[:10]])
    assert isinstance(drive.ask(4, LONG + "And more?"), Finished)
    assert drive.begun(4) == 0


def test_a_prefix_that_was_read_is_removed(tmp_path: Path) -> None:
    before = Kept(tmp_path)
    before.ask(2, LONG)
    before.written()
    drive = Kept(tmp_path)
    assert isinstance(drive.ask(1, LONG + "And more?"), Failed)
    assert drive.begun(1) >= len(LONG)
    drive.until(lambda: drive.on_disk() == [])
    drive.ask(4, LONG)
    assert drive.begun(4) == 0


def test_a_prefix_that_is_being_written_is_removed_once_it_is(tmp_path: Path) -> None:
    drive = Kept(tmp_path)
    drive.ask(2, LONG)
    drive.turn(Farewell())
    while_not(drive.on_disk, lambda: None)  # what says so waits in the inbox
    drive.turn(drive.asked(1, LONG + "And more?"))
    drive.finish()
    assert isinstance(drive.events(1)[-1], Failed)
    drive.until(lambda: drive.on_disk() == [])
    drive.ask(4, LONG)
    assert drive.begun(4) == 0


def test_who_waits_to_read_it_does_without(tmp_path: Path) -> None:
    before = Kept(tmp_path)
    before.ask(2, LONG)
    before.written()
    steps: list[int] = []

    def broken(id: int) -> bool:
        steps.extend([id] * (id == 1))
        return id == 1 and len(steps) > 20

    drive = Kept(tmp_path, text=LONG[20:], broken=broken)
    drive.ask(2, OTHER)
    drive.turn(drive.asked(1, LONG[:20]))
    drive.turn(drive.asked(3, LONG))
    assert drive.tier.waiting == 1
    while_not(lambda: drive.ended(3), drive.turn)  # what the reading thread says waits in the inbox
    assert [type(drive.events(id)[-1]) for id in (1, 3)] == [Failed, Finished]
    kept = len(drive.scheduler.prefixes)
    drive.until(lambda: drive.on_disk() == [])
    assert len(drive.scheduler.prefixes) == kept


# ---- what is kept warm
@pytest.mark.parametrize("read", [False, True], ids=["computed", "read from disk"])
def test_a_warm_prompt_is_computed_again(tmp_path: Path, read: bool) -> None:
    prompt = system(LONG)
    if read:
        before = Kept(tmp_path, prompt)
        before.until(lambda: before.pinned(prompt))
        before.written()
    drive = Kept(tmp_path, prompt)
    drive.until(lambda: drive.pinned(prompt))
    drive.written()
    assert (drive.begun(-1) > 0) == read
    spoilt, on_disk = drive.pinned(prompt), drive.on_disk()
    assert len(on_disk) == 1
    assert isinstance(drive.ask(1, told(prompt)), Failed)
    drive.until(lambda: drive.pinned(prompt))
    assert drive.pinned(prompt) is not spoilt
    assert drive.begun(-2) == 0
    assert isinstance(drive.ask(2, told(prompt)), Finished)
    assert drive.begun(2) >= len(LONG)
    drive.written()
    assert drive.on_disk()[0] == on_disk[0]


def settled(drive: Kept, last: int) -> Sequence[int]:
    """The warm prompts that were begun, once that of this id has ended and it is clear that no more come."""
    drive.until(lambda: drive.ended(last))
    drive.warmer.delivered()
    drive.turn(*drive.inbox.drain(block=False))
    drive.finish()
    return [id for id in drive.started() if id < 0]


def test_a_warm_prompt_that_never_has_numbers_is_tried_twice(tmp_path: Path) -> None:
    drive = Kept(tmp_path, system(LONG), broken=lambda id: id < 0)
    assert settled(drive, -2) == [-1, -2]
    assert drive.pinned(system(LONG)) is None
    assert isinstance(drive.ask(2, told(system(LONG))), Finished)
    assert settled(drive, -2) == [-1, -2]


def test_a_warm_prompt_that_never_has_numbers_leaves_those_that_begin_like_it(tmp_path: Path) -> None:
    fine, bad = system(LONG + "This is fine."), system(LONG + "This never is.")
    drive = Kept(tmp_path, fine, bad, broken=lambda id: id in (-2, -4))
    assert settled(drive, -4) == [-1, -2, -3, -4]
    assert drive.begun(-4) >= len(LONG)
    assert drive.pinned(fine)
    assert not drive.pinned(bad)
