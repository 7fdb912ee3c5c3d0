"""When a step carries guesses, on the real loop and a scripted device that refuses what breaks the contract."""

import random
from pathlib import Path

import pytest

from appliance.engine.fake.tokenizer import END
from appliance.engine.inbox import Arrival, Cancellation
from appliance.vocab.event import Finished
from appliance.vocab.spec import Speculative
from tests.engine.driving import Drive

LOOKUP = Speculative(kind="lookup", depth=8, max_batch=2)
COPIED = "the quick brown fox jumps over the lazy dog and "
ANSWER = COPIED * 3


def finished(drive: Drive, id: int) -> Finished:
    event = drive.events(id)[-1]
    assert isinstance(event, Finished)
    return event


def test_an_answer_that_copies_comes_in_fewer_steps_with_the_same_text(tmp_path: Path) -> None:
    plain, guessing = Drive(tmp_path, text=ANSWER), Drive(tmp_path, text=ANSWER, speculative=LOOKUP)
    for drive in (plain, guessing):
        drive.turn(drive.arrival(1, COPIED))
        drive.finish()
    assert guessing.text(1) == plain.text(1) == ANSWER
    assert len(guessing.device.batches) < len(plain.device.batches) / 3
    usage = finished(guessing, 1).usage
    assert 0 < usage.accepted <= usage.drafted
    assert finished(plain, 1).usage.drafted == 0


def test_without_anything_to_guess_steps_overlap_as_they_do_without_guessing(tmp_path: Path) -> None:
    text = "0123456789abcdefghijklmnopqrstuvwxyz"
    plain, guessing = Drive(tmp_path, text=text), Drive(tmp_path, text=text, speculative=LOOKUP)
    turns = []
    for drive in (plain, guessing):
        drive.turn(drive.arrival(1, "ABC"))
        turns.append(1)
        while not drive.loop.idle:
            drive.turn()
            turns[-1] += 1
    assert turns[0] == turns[1]
    assert [batch.decode for batch in plain.device.batches] == [batch.decode for batch in guessing.device.batches]


def test_nothing_is_guessed_while_a_prompt_is_read_or_too_many_rows_decode(tmp_path: Path) -> None:
    drive = Drive(tmp_path, text=ANSWER, speculative=LOOKUP)
    drive.turn(drive.arrival(1, COPIED))
    for _ in range(6):
        drive.turn()
    drive.turn(drive.arrival(2, "b" + COPIED), drive.arrival(3, "c" + COPIED))
    drive.finish()
    assert [drive.text(id) for id in (1, 2, 3)] == [ANSWER] * 3
    batches = drive.device.batches
    assert any(batch.drafts for batch in batches)
    assert not any(batch.drafts and (batch.chunks or len(batch.decode) > 2) for batch in batches)


@pytest.mark.parametrize("tokens", range(60, 70))
def test_guesses_never_pass_the_last_token_allowed(tmp_path: Path, tokens: int) -> None:
    drive = Drive(tmp_path, text=ANSWER, speculative=LOOKUP)
    drive.turn(drive.arrival(1, COPIED, max_tokens=tokens))
    drive.finish()
    assert drive.text(1) == ANSWER[:tokens]
    assert finished(drive, 1).reason == "length"
    assert finished(drive, 1).usage.completion_tokens == tokens


def test_tokens_after_the_end_that_came_with_it_are_forgotten(tmp_path: Path) -> None:
    """An answer ends within what was guessed right; its prefix, as kept, ends there too."""
    drive = Drive(tmp_path, prefix=10_000, text="yes", speculative=LOOKUP)
    arrival = drive.arrival(1, "question ")
    arrival.sequence.foretold = [*drive.tokenizer.encode("yes"), END, END, END]
    drive.turn(arrival)
    drive.finish()
    assert finished(drive, 1).usage.accepted > len("yes"), "the device was asked for tokens after the end"
    assert drive.text(1) == "yes"
    assert finished(drive, 1).usage.completion_tokens == len("yes") + 1
    drive.turn(drive.arrival(2, "question yes more "))
    drive.finish()
    assert finished(drive, 2).usage.cached_tokens == len("question yes")


def test_a_foretold_answer_is_guessed_though_the_model_is_not_set_to(tmp_path: Path) -> None:
    drive = Drive(tmp_path, text=ANSWER)
    drive.turn(drive.arrival(1, "write", foretold=ANSWER[:40] + "?" + ANSWER[41:]))
    drive.finish()
    assert drive.text(1) == ANSWER
    assert len(drive.device.batches) < len(ANSWER) / 3


def test_earlier_answers_are_guessed_from_within_their_namespace_alone(tmp_path: Path) -> None:
    steps = []
    for namespace in ("a", "b"):
        drive = Drive(tmp_path, text=COPIED, speculative=Speculative(kind="suffix", depth=8))
        for id, whose in ((1, "a"), (2, namespace)):
            before = len(drive.device.batches)
            arrival = drive.arrival(id, f"question {id}")
            arrival.sequence.namespace = whose
            drive.turn(arrival)
            drive.finish()
            assert drive.text(id) == COPIED
        steps.append(len(drive.device.batches) - before)
    assert steps[0] < len(COPIED) / 2 < steps[1]


@pytest.mark.parametrize("seed", range(12))
def test_whoever_comes_leaves_and_is_given_up_all_answers_are_theirs(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    drive = Drive(
        tmp_path, text=ANSWER, rows=3, tokens=420, prefix=rng.choice([0, 300]), speculative=LOOKUP,
        special=[],
    )  # fmt: skip
    left: set[int] = set()
    for id in range(10):
        messages: list[Arrival | Cancellation] = [
            drive.arrival(id, f"{id} {COPIED}", foretold=rng.choice([None, ANSWER, "no", ANSWER[:50] + "!"]))
        ]
        if id and rng.random() < 0.3:
            left.add(gone := rng.randrange(id))
            messages.append(Cancellation(gone))
        drive.turn(*messages)
        for _ in range(rng.randrange(12)):
            drive.turn()
    drive.finish()
    for id in range(10):
        assert drive.ended(id)
        assert drive.text(id) == ANSWER or (id in left and ANSWER.startswith(drive.text(id)))
    assert drive.scheduler.running == drive.scheduler.waiting == 0
