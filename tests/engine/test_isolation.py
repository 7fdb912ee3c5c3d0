"""What goes wrong with one answer in the step loop, and the others beside it."""

from dataclasses import replace

import pytest

from appliance.engine.backend import Sampled
from appliance.errors import EngineFault
from appliance.vocab.event import Failed, Finished
from appliance.vocab.spec import Speculative
from tests.engine.driving import Drive


@pytest.mark.parametrize("at", [1, 4])
def test_an_answer_that_cannot_be_read_fails_alone(tmp_path, at):
    drive = Drive(tmp_path, text="0123456789")
    arrivals = [drive.arrival(id, f"prompt {id}") for id in range(3)]
    pipeline = arrivals[1].sequence.pipeline
    feed, fed = pipeline.feed, []

    def fail(sampled):
        fed.append(sampled)
        if len(fed) == at:
            raise RecursionError("a tag in a tag in a tag")
        return feed(sampled)

    pipeline.feed = fail
    drive.turn(*arrivals)
    drive.finish()
    assert [type(drive.events(id)[-1]) for id in range(3)] == [Finished, Failed, Finished]
    assert drive.text(0) == drive.text(2) == "0123456789"
    assert len(fed) == at
    assert drive.loop.pong(0).gauges.kv_bytes == 0


class Breaking:
    """A step that says answer 1 cannot go on once it has got `good` tokens; in place of the next stands `token`."""

    def __init__(self, step, good, token, got):
        self.step, self.good, self.token, self.got = step, good, token, got

    def begin(self):
        self.step.begin()

    def wait(self):
        result = self.step.wait()
        if 1 not in result.sampled:
            return result
        said = [result.sampled[1], *result.further.get(1, ())]
        keep = self.good - len(self.got)
        self.got += said
        if len(said) <= keep:
            return result
        said = [*said[: max(0, keep)], Sampled(self.token)]
        sampled, further = {**result.sampled, 1: said[0]}, {**result.further, 1: tuple(said[1:])}
        return replace(result, sampled=sampled, further=further, failed={1: "its numbers are none"})


@pytest.mark.parametrize("guesses", [None, Speculative(kind="lookup", depth=4)], ids=["plain", "with guesses"])
@pytest.mark.parametrize("max_tokens", [1000, 5], ids=["free", "at its last token"])
@pytest.mark.parametrize("token", [0, 0x0141], ids=["an end", "a letter"])
@pytest.mark.parametrize("good", [0, 4, 7])
def test_a_token_that_is_none_is_neither_said_nor_an_end(tmp_path, good, token, max_tokens, guesses):
    drive = Drive(tmp_path, text="abcabcabcabcabc", speculative=guesses)
    launch, got = drive.device.launch, []
    drive.device.launch = lambda batch: Breaking(launch(batch), good, token, got)
    drive.turn(*(drive.arrival(id, f"abcabc {id}", max_tokens=max_tokens if id == 1 else 1000) for id in range(3)))
    drive.finish()
    whole = max_tokens <= good
    assert [type(drive.events(id)[-1]) for id in range(3)] == [Finished, Finished if whole else Failed, Finished]
    assert drive.text(1) == "abcabcabc"[: min(good, max_tokens)]
    assert drive.text(0) == drive.text(2) == "abcabcabcabcabc"
    assert drive.loop.pong(0).gauges.kv_bytes == 0


@pytest.mark.parametrize("trim", [True, False], ids=["cut anywhere", "cut nowhere"])
def test_of_an_answer_that_cannot_go_on_nothing_is_kept_for_others(tmp_path, trim):
    drive = Drive(tmp_path, text="abc", prefix=10_000, trim=trim)
    launch, got = drive.device.launch, []
    drive.turn(drive.arrival(0, "another thing"))
    drive.finish()
    drive.device.launch = lambda batch: Breaking(launch(batch), 0, 0, got)
    drive.turn(drive.arrival(1, "a prompt that spoils"))
    drive.finish()
    found = drive.scheduler.prefixes.match
    assert found(drive.tokenizer.encode("a prompt that spoils, or not")).length <= 1
    drive.turn(drive.arrival(2, "a prompt that is fine"))
    drive.finish()
    assert [type(drive.events(id)[-1]) for id in range(3)] == [Finished, Failed, Finished]
    assert found(drive.tokenizer.encode("a prompt that is fine, too")).length >= len("a prompt that is fine") - 1


# ---- faults of the device while a step is launched
FAULTY = "xxxxxx"


def faulty(at, after=2):
    return [{"contains": "bad", "fault_after": after, "fault_at": at, "text": FAULTY}]


@pytest.mark.parametrize("prefix", [0, 10_000], ids=["", "with a prefix cache"])
@pytest.mark.parametrize("after", [0, 1, 4])
@pytest.mark.parametrize("at", ["launch", "wait"])
def test_a_fault_fails_an_answer_that_is_alone_after_all_that_was_computed_before_it(tmp_path, at, after, prefix):
    drive = Drive(tmp_path, rows=1, prefix=prefix, when=faulty(at, after), text="fine")
    drive.turn(drive.arrival(1, "bad"), drive.arrival(2, "later"))
    drive.finish()
    assert drive.text(1) == FAULTY[:after]
    assert [type(event) for event in drive.events(1) if isinstance(event, Finished | Failed)] == [Failed]
    assert drive.events(1)[-1].code == "engine_error"
    assert drive.text(2) == "fine"
    assert (drive.scheduler.running, drive.loop.pong(0).gauges.kv_bytes) == (0, 0)


def test_a_fault_at_launch_with_several_answers_ends_the_engine_after_what_was_computed_before_it(tmp_path):
    drive = Drive(tmp_path, when=faulty("launch"), text="fine and long")
    drive.turn(drive.arrival(1, "bad"), drive.arrival(2, "with"))
    with pytest.raises(EngineFault):
        drive.finish()
    assert (drive.text(1), drive.text(2)) == (FAULTY[:2], "fine and long"[:2])
    assert not drive.ended(1) and not drive.ended(2)


def test_a_fault_at_launch_of_one_answer_does_not_keep_the_last_token_of_another(tmp_path):
    drive = Drive(tmp_path, text="abc")
    launch = drive.device.launch

    def refuse(batch):
        if any(chunk.sequence == 2 for chunk in batch.chunks):
            raise EngineFault("no memory for this prompt")
        return launch(batch)

    drive.device.launch = refuse
    drive.turn(drive.arrival(1, "first", max_tokens=2))
    while not drive.text(1):
        drive.turn()
    drive.turn(drive.arrival(2, "second"))
    drive.finish()
    assert drive.text(1) == "ab"
    assert isinstance(drive.events(1)[-1], Finished)
    assert isinstance(drive.events(2)[-1], Failed)


def test_an_answer_that_cannot_begin_fails_alone(tmp_path):
    drive = Drive(tmp_path, when=faulty("open"), text="fine and long")
    drive.turn(drive.arrival(0, "with"))
    while not drive.text(0):
        drive.turn()
    drive.turn(drive.arrival(1, "bad"), drive.arrival(2, "later"))
    drive.finish()
    assert [type(drive.events(id)[-1]) for id in range(3)] == [Finished, Failed, Finished]
    assert drive.started() == [0, 2]
    assert drive.text(0) == drive.text(2) == "fine and long"
    assert (drive.scheduler.running, drive.loop.pong(0).gauges.kv_bytes) == (0, 0)


@pytest.mark.parametrize("rows", [1, 4])
def test_those_that_wait_behind_an_answer_that_cannot_begin_are_answered(tmp_path, rows):
    drive = Drive(tmp_path, rows=rows, prefix=10_000, when=faulty("open"), text="fine")
    same = "a beginning that both have in common " * 3
    drive.turn(drive.arrival(1, same + "bad"), drive.arrival(2, same + "good"))
    drive.finish()
    assert isinstance(drive.events(1)[-1], Failed)
    assert drive.text(2) == "fine"


@pytest.mark.parametrize("after", [0, 3, len(FAULTY)], ids=["its prompt", "an answer cut short", "its end"])
def test_what_cannot_be_kept_for_others_fails_nobody(tmp_path, after):
    drive = Drive(tmp_path, prefix=10_000, when=faulty("snapshot", after), text="fine")
    drive.turn(drive.arrival(1, "bad" * 20, max_tokens=after or 1000), drive.arrival(2, "good" * 20))
    drive.finish()
    assert [type(drive.events(id)[-1]) for id in (1, 2)] == [Finished, Finished]
    assert drive.text(1) == FAULTY[: after or 1000]
    found = drive.scheduler.prefixes.match
    assert found(drive.tokenizer.encode("good" * 20)).length >= len("good" * 20) - 1
    assert (found(drive.tokenizer.encode("bad" * 20)).length == 0) == (after == 0)
