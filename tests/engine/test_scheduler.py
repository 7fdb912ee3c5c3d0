"""What each step computes: budgets, order, sharing, preemption; on the real loop and a scripted device that
refuses any step which breaks the contract."""

import random
from pathlib import Path

import msgspec
import pytest

from appliance.engine.inbox import Cancellation, Configuration
from appliance.errors import EngineFault
from appliance.vocab.event import Failed, Finished, Reuse, Started
from appliance.vocab.spec import BACKGROUND, WISHES
from tests.engine.driving import Drive


def test_sequences_decode_together_while_others_prefill(tmp_path):
    drive = Drive(tmp_path, text="0123456789")
    drive.turn(drive.arrival(1, "a" * 10), drive.arrival(2, "b" * 20))
    drive.turn()  # their prompts are still being read, and others might have come meanwhile
    drive.turn()
    drive.turn(drive.arrival(3, "c" * 30))
    drive.turn()
    first, second, third, fourth = drive.device.batches[:4]
    assert [(c.sequence, c.start, len(c.tokens), c.last) for c in first.chunks] == [(1, 0, 9, True), (2, 0, 19, True)]
    assert (second.decode, second.chunks) == ((1, 2), ())
    assert (third.decode, [c.sequence for c in third.chunks]) == ((1, 2), [3])
    assert fourth.decode == (1, 2, 3)
    drive.finish()
    assert [drive.text(id) for id in (1, 2, 3)] == ["0123456789"] * 3


def test_sequences_that_said_nothing_yet_wait_for_prompts_that_came_with_them(tmp_path):
    drive = Drive(tmp_path, text="0123456789")
    drive.turn(drive.arrival(1, "a" * 10))
    drive.turn(drive.arrival(2, "b" * 20), drive.arrival(3, "c" * 30))
    drive.turn(drive.arrival(4, "d" * 40))
    drive.turn()
    drive.turn()
    _, second, third, fourth = drive.device.batches[:4]
    assert (second.decode, [c.sequence for c in second.chunks]) == ((), [2, 3])
    assert (third.decode, [c.sequence for c in third.chunks]) == ((), [4])
    assert fourth.decode == (1, 2, 3, 4)
    drive.finish()
    assert [drive.text(id) for id in (1, 2, 3, 4)] == ["0123456789"] * 4


def test_they_do_not_wait_for_more_than_a_step_alone_may_read(tmp_path):
    drive = Drive(tmp_path, text="x", endless=True, prefill_ms_per_token=0.25, context=10_000)
    drive.turn(Configuration(msgspec.structs.replace(drive.settings, stall_target=0.02)))
    drive.turn(drive.arrival(1, "a" * 41, max_tokens=400))
    drive.turn()
    drive.turn(*(drive.arrival(id, "b" * 201) for id in range(2, 6)))
    for _ in range(4):
        drive.turn()
    taken = [(batch.decode, [c.sequence for c in batch.chunks]) for batch in drive.device.batches[1:3]]
    assert taken == [((), [2, 3]), ((1, 2, 3), [4])]
    drive.turn(*(Cancellation(id) for id in range(1, 6)))


def test_prompts_that_come_while_the_first_is_read_are_read_before_its_first_token(tmp_path):
    drive = Drive(tmp_path, text="0123456789")
    drive.turn(drive.arrival(1, "a" * 10))
    drive.turn()
    drive.turn(drive.arrival(2, "b" * 20), drive.arrival(3, "c" * 30))
    _, second = drive.device.batches[:2]
    assert (second.decode, [c.sequence for c in second.chunks]) == ((), [2, 3])
    drive.finish()
    assert [drive.text(id) for id in (1, 2, 3)] == ["0123456789"] * 3


def test_only_the_first_prompt_of_a_step_is_cut_and_others_come_if_half_of_them_fits(tmp_path):
    drive = Drive(tmp_path, text="x", endless=True, prefill_ms_per_token=0.25, context=10_000)
    drive.turn(drive.arrival(1, "a" * 40, max_tokens=400))
    drive.turn(Configuration(msgspec.structs.replace(drive.settings, stall_target=0.02)))
    drive.turn()
    drive.turn(drive.arrival(2, "b" * 61), drive.arrival(3, "c" * 31), drive.arrival(4, "d" * 101))
    drive.turn()
    drive.turn()
    taken = [[(c.sequence, len(c.tokens)) for c in batch.chunks] for batch in drive.device.batches[2:5]]
    assert taken == [[(2, 60), (3, 30)], [(4, 80)], [(4, 20)]]


def test_a_long_prompt_is_computed_in_chunks_of_the_measured_speed(tmp_path):
    drive = Drive(tmp_path, text="x", endless=True, prefill_ms_per_token=0.25, context=10_000)
    drive.turn(drive.arrival(1, "a" * 40, max_tokens=400))
    drive.turn(Configuration(msgspec.structs.replace(drive.settings, stall_target=0.02)))
    drive.turn()
    drive.turn(drive.arrival(2, "b" * 501))
    for _ in range(8):
        drive.turn()
    chunks = [c for batch in drive.device.batches for c in batch.chunks if c.sequence == 2]
    assert [len(c.tokens) for c in chunks] == [80] * 6 + [20]
    assert [c.last for c in chunks] == [False] * 6 + [True]
    assert all(batch.decode[:1] == (1,) for batch in drive.device.batches[2:])


def test_a_row_is_not_launched_past_its_last_token(tmp_path):
    drive = Drive(tmp_path, text="x", endless=True)
    drive.turn(drive.arrival(1, "ab", max_tokens=3))
    drive.finish()
    assert sum(1 in batch.decode for batch in drive.device.batches) == 3
    assert drive.events(1)[-1].reason == "length"


def test_a_row_that_ends_by_itself_is_one_step_over_and_discards_it(tmp_path):
    drive = Drive(tmp_path, text="xy")
    drive.turn(drive.arrival(1, "ab"))
    drive.finish()
    assert sum(1 in batch.decode for batch in drive.device.batches) == 4
    assert (drive.text(1), drive.events(1)[-1].usage.completion_tokens) == ("xy", 3)


@pytest.mark.parametrize("prompt", ["a", "ab"], ids=["one token", "two tokens"])
def test_the_shortest_prompts_have_a_last_chunk_too(tmp_path, prompt):
    drive = Drive(tmp_path, text="xyz")
    drive.turn(drive.arrival(1, prompt))
    drive.finish()
    assert [c.last for batch in drive.device.batches for c in batch.chunks] == [True]
    assert drive.text(1) == "xyz"


# ---- order and budgets
def test_the_first_of_the_highest_priority_runs_first(tmp_path):
    drive = Drive(tmp_path, rows=1, text="x")
    drive.turn(drive.arrival(1, "aa"))
    drive.turn(drive.arrival(2, "bb"), drive.arrival(3, "cc", priority=5), drive.arrival(4, "dd", priority=5))
    drive.finish()
    assert drive.started() == [1, 3, 4, 2]


def test_a_small_one_does_not_overtake_one_that_does_not_fit_yet(tmp_path):
    drive = Drive(tmp_path, tokens=300, text="x" * 20)
    drive.turn(drive.arrival(1, "a" * 150))
    drive.turn(drive.arrival(2, "b" * 200), drive.arrival(3, "c" * 5))
    for _ in range(10):
        drive.turn()
    assert drive.started() == [1]
    drive.finish()
    assert drive.started() == [1, 2, 3]


def test_one_over_the_budget_runs_alone(tmp_path):
    drive = Drive(tmp_path, tokens=50, text="done")
    drive.turn(drive.arrival(1, "a" * 100), drive.arrival(2, "b"))
    drive.finish()
    assert drive.started() == [1, 2]
    assert drive.text(1) == drive.text(2) == "done"


def test_over_the_budget_the_last_in_rank_is_recomputed_later(tmp_path):
    answer = "".join(chr(97 + n % 26) for n in range(80))
    drive = Drive(tmp_path, tokens=200, text=answer)
    drive.turn(drive.arrival(1, "a" * 30), drive.arrival(2, "b" * 30, priority=1))
    most = 0
    while not drive.loop.idle:
        drive.turn()
        most = max(most, drive.loop.pong(0).gauges.kv_bytes)
    again = [c for batch in drive.device.batches for c in batch.chunks if c.start == 0]
    assert [c.sequence for c in again] == [2, 1, 1]
    assert len(again[-1].tokens) > 29, "what it had generated is computed again"
    assert drive.text(1) == drive.text(2) == answer
    assert drive.started() == [2, 1], "and it is not told twice"
    assert most <= 200


def test_what_nobody_waits_for_makes_way_and_goes_on_where_it_was(tmp_path):
    answer = "".join(chr(97 + n % 26) for n in range(40))
    drive = Drive(tmp_path, rows=1, text=answer)
    drive.turn(drive.arrival(1, "aa", priority=-BACKGROUND))
    for _ in range(10):
        drive.turn()
    drive.turn(drive.arrival(2, "bb"), drive.arrival(3, "cc", priority=-BACKGROUND))
    while not drive.ended(2):
        drive.turn()
    assert not drive.ended(1)
    assert 0 < len(drive.text(1)) < len(answer)
    drive.finish()
    assert drive.started() == [1, 2, 3], "and it is not told twice"
    assert drive.text(1) == drive.text(2) == drive.text(3) == answer


@pytest.mark.parametrize(
    ("running", "waiting", "rows"),
    [
        pytest.param(0, WISHES, 1, id="somebody waits for what runs"),
        pytest.param(-BACKGROUND, 2 * WISHES - BACKGROUND, 1, id="nobody waits for either"),
        pytest.param(-BACKGROUND, 0, 2, id="there is room for both"),
    ],
)
def test_nothing_else_makes_way(tmp_path, running, waiting, rows):
    drive = Drive(tmp_path, rows=rows, text="x" * 20)
    drive.turn(drive.arrival(1, "aa", priority=running))
    for _ in range(5):
        drive.turn()
    drive.turn(drive.arrival(2, "bb", priority=waiting))
    drive.finish()
    assert [c.sequence for batch in drive.device.batches for c in batch.chunks] == [1, 2]


def test_what_nobody_waits_for_makes_way_where_memory_is_what_lacks(tmp_path):
    drive = Drive(tmp_path, tokens=200, text="x" * 20)
    drive.turn(drive.arrival(1, "a" * 120, priority=-BACKGROUND))
    for _ in range(5):
        drive.turn()
    drive.turn(drive.arrival(2, "b" * 120))
    while not drive.ended(2):
        drive.turn()
    assert not drive.ended(1)
    drive.finish()
    assert drive.text(1) == drive.text(2) == "x" * 20


def test_what_nobody_waits_for_is_not_given_up_again_and_again_for_one_that_waits_for_a_prefix(tmp_path):
    drive = Drive(tmp_path, tokens=2240, prefix=100_000, text="x" * 20, prefill_ms_per_token=0.25)
    drive.turn(Configuration(msgspec.structs.replace(drive.settings, stall_target=0.005)))
    drive.turn(drive.arrival(9, "z" * 60))
    drive.finish()  # so that the speed is known
    drive.turn(drive.arrival(1, "a" * 1000), drive.arrival(2, "c" * 200, priority=-BACKGROUND))
    drive.turn()
    opened, open_row = [], drive.device.open
    drive.device.open = lambda opening: (opened.append(opening.id), open_row(opening))
    drive.turn(drive.arrival(3, "a" * 999 + "bb"))
    drive.finish()
    assert opened.count(3) == 1
    assert opened.count(2) <= 2
    assert drive.text(2) == "x" * 20


def test_fewer_rows_let_running_ones_finish(tmp_path):
    drive = Drive(tmp_path, rows=3, text="x" * 20)
    drive.turn(*(drive.arrival(id, "aa") for id in (1, 2, 3, 4)))
    drive.turn(Configuration(msgspec.structs.replace(drive.settings, concurrency=1)))
    assert drive.scheduler.running == 3
    drive.finish()
    assert all(drive.text(id) == "x" * 20 for id in (1, 2, 3, 4))


# ---- shared prefixes
SHARED = "s" * 100


@pytest.mark.parametrize("trim", [True, False], ids=["trimmable", "exact"])
def test_a_prefix_two_share_is_computed_once(tmp_path, trim):
    drive = Drive(tmp_path, prefix=10_000, trim=trim, text="x")
    drive.turn(drive.arrival(1, SHARED + "aaa"), drive.arrival(2, SHARED + "bbb"), drive.arrival(3, "other"))
    assert drive.started() == [1, 3], "nobody else waits"
    drive.finish()
    computed = {
        id: sum(len(c.tokens) for b in drive.device.batches for c in b.chunks if c.sequence == id) for id in (1, 2)
    }
    assert computed == {1: 102, 2: 2}
    assert drive.events(2)[0] == Started(103, 100, Reuse("longer", 100))
    assert drive.events(2)[-1].usage.cached_tokens == 100


KNOWN = "q" * 40
FUSED = {
    "a short rest": (True, KNOWN + "rest", 5, (), [3]),
    "as much as is worth it": (True, KNOWN + "r" * 49, 5, (), [48]),
    "too much": (True, KNOWN + "r" * 50, 5, (), []),
    "nothing known of it": (True, "another", 5, (), []),
    "nothing left of it": (True, KNOWN, 5, (), []),
    "others run": (True, KNOWN + "rest", 5, ("beside",), []),
    "caches that cannot be cut": (False, KNOWN + "rest", 5, (), []),
}


@pytest.mark.parametrize(("trim", "prompt", "tokens", "beside", "fused"), FUSED.values(), ids=FUSED)
def test_the_rest_of_a_known_prompt_comes_with_its_first_token(tmp_path, trim, prompt, tokens, beside, fused):
    drive = Drive(tmp_path, prefix=10_000, trim=trim, text="answer")
    drive.turn(drive.arrival(1, KNOWN, max_tokens=1))
    drive.finish()
    before = len(drive.device.batches)
    others = [drive.arrival(3 + n, text) for n, text in enumerate(beside)]
    drive.turn(drive.arrival(2, prompt, max_tokens=tokens), *others)
    drive.finish()
    assert [len(batch.fused.tokens) for batch in drive.device.batches[before:] if batch.fused] == fused
    assert drive.text(2) == "answer"[:tokens]
    drive.turn(drive.arrival(9, prompt, max_tokens=1))
    drive.finish()
    assert drive.events(9)[0].cached_tokens == len(prompt) - 1, "all of it was kept"


def test_a_prefix_too_short_to_matter_is_not_waited_for(tmp_path):
    drive = Drive(tmp_path, prefix=10_000, text="x")
    drive.turn(drive.arrival(1, "s" * 20 + "aaa"), drive.arrival(2, "s" * 20 + "bbb"))
    assert drive.started() == [1, 2]


def test_without_a_prefix_cache_nobody_waits(tmp_path):
    drive = Drive(tmp_path, prefix=0, text="x")
    drive.turn(drive.arrival(1, SHARED), drive.arrival(2, SHARED))
    assert drive.started() == [1, 2]


def test_who_waits_for_a_prefix_goes_on_when_its_leader_is_cancelled(tmp_path):
    drive = Drive(tmp_path, prefix=10_000, text="x")
    drive.turn(drive.arrival(1, SHARED + "a"), drive.arrival(2, SHARED + "b"))
    drive.turn(Cancellation(1))
    drive.finish()
    assert drive.events(1)[-1].reason == "cancelled"
    assert (drive.text(2), drive.events(2)[0]) == ("x", Started(101, 0, Reuse("new")))


def test_the_next_turn_of_a_conversation_reuses_prompt_and_answer(tmp_path):
    drive = Drive(tmp_path, prefix=10_000, text="answer")
    drive.turn(drive.arrival(1, "question"))
    drive.finish()
    drive.turn(drive.arrival(2, "questionanswer, and then?"))
    drive.finish()
    assert drive.events(2)[0] == Started(25, len("questionanswer"), Reuse("longer", len("questionanswer")))


# ---- cancelling
STATES = {"waiting": 0, "prefilling": 1, "launched": 3, "decoding": 5}


@pytest.mark.parametrize("turns", STATES.values(), ids=STATES)
def test_a_cancel_frees_the_row_within_one_step_whatever_it_was_doing(tmp_path, turns):
    drive = Drive(tmp_path, rows=1, text="x" * 50, prefix=1000)
    drive.turn(drive.arrival(1, "a" * 10))
    if turns == 0:
        drive.turn(drive.arrival(9, "b"))
    for _ in range(turns - 1):
        drive.turn()
    victim, other = (9, 1) if turns == 0 else (1, 2)
    drive.turn(Cancellation(victim), *([] if other == 1 else [drive.arrival(2, "cc")]))
    assert drive.events(victim)[-1].reason == "cancelled"
    if other == 2:
        assert [c.sequence for c in drive.device.batches[-1].chunks] == [2]
    drive.finish()
    assert drive.text(other) == "x" * 50
    assert sum(isinstance(e, Finished) for e in drive.events(victim)) == 1


def test_cancelling_what_is_not_there_does_nothing(tmp_path):
    drive = Drive(tmp_path)
    drive.turn(Cancellation(5))
    assert drive.emitted == []


# ---- faults
def test_a_device_fault_fails_an_answer_that_is_alone_in_its_step(tmp_path):
    drive = Drive(tmp_path, rows=1, when=[{"contains": "bad", "fault_after": 2, "text": "xxxxxx"}], text="fine")
    drive.turn(drive.arrival(1, "bad"), drive.arrival(2, "later"))
    drive.finish()
    assert isinstance(drive.events(1)[-1], Failed)
    assert drive.events(1)[-1].code == "engine_error"
    assert drive.text(2) == "fine"


def test_a_device_fault_with_several_answers_ends_the_engine_and_fails_none(tmp_path):
    drive = Drive(tmp_path, rows=2, when=[{"contains": "bad", "fault_after": 2, "text": "xxxxxx"}], text="x" * 50)
    drive.turn(drive.arrival(1, "bad"), drive.arrival(2, "with"))
    with pytest.raises(EngineFault):
        drive.finish()
    assert not drive.ended(1) and not drive.ended(2)


# ---- everything at once
ANSWERS = {"words": ["a", "bc", "d"], "length": 50}


@pytest.mark.parametrize("seed", range(12))
def test_a_random_walk_keeps_every_promise(tmp_path: Path, seed: int):
    draw = random.Random(seed)
    rows, tokens = draw.randint(1, 6), draw.randint(250, 700)
    trim, prefix = draw.random() < 0.5, draw.choice((0, 300, 5000))
    drive = Drive(tmp_path, rows=rows, tokens=tokens, prefix=prefix, trim=trim, **ANSWERS)
    limits: dict[int, int] = {}
    cancelled: set[int] = set()
    while len(limits) < 60:
        messages = []
        for _ in range(draw.randint(1, 4)):
            id = len(limits) + 1
            prompt = draw.choice(("s" * 90, "t" * 40, "")) + "".join(draw.choices("uvw", k=draw.randint(1, 60)))
            limits[id] = draw.choice((1, 5, 1000))
            messages.append(
                drive.arrival(
                    id, prompt, max_tokens=limits[id], seed=id, priority=draw.choice((0, 0, 1, -BACKGROUND))
                )
            )
        if draw.random() < 0.5:
            cancelled.add(draw.randint(1, len(limits)))
            messages.append(Cancellation(max(cancelled)))
        drive.turn(*messages)
        for _ in range(draw.randint(0, 30)):
            drive.turn()
            assert drive.scheduler.running <= rows
            assert drive.loop.pong(0).gauges.kv_bytes <= tokens or drive.scheduler.running == 1
            assert drive.scheduler.prefixes.bytes <= prefix
    drive.finish()
    assert (drive.scheduler.running, drive.scheduler.waiting, drive.loop.pong(0).gauges.kv_bytes) == (0, 0, 0)
    alone = Drive(tmp_path, rows=1, **ANSWERS)
    alone.turn(*(alone.arrival(id, "x", max_tokens=limit, seed=id) for id, limit in limits.items()))
    alone.finish()
    for id in limits:
        begun, *told, end = [None, *drive.events(id)][-max(len(drive.events(id)), 2) :]
        assert isinstance(begun, Started | None) and isinstance(end, Finished)
        assert not any(isinstance(event, Started | Finished | Failed) for event in told)
        if end.reason == "cancelled":
            assert id in cancelled and alone.text(id).startswith(drive.text(id))
        else:
            assert (drive.text(id), end.reason) == (alone.text(id), alone.events(id)[-1].reason)
