"""What goes wrong with one answer in the step loop, and the others beside it."""

import pytest

from appliance.vocab.event import Failed, Finished
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
