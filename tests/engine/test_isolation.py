"""What goes wrong with one answer in the step loop, and the others beside it."""

from dataclasses import replace

import pytest

from appliance.engine.backend import Sampled
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
    assert drive.loop.pong(0).kv_bytes == 0


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
    assert drive.loop.pong(0).kv_bytes == 0


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
