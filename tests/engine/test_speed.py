"""A chunk is as long as may be waited for it, by what chunks and decode steps took before."""

import random

import pytest

from appliance.engine.speed import CEILING, FLOOR, Pace, Reading, pairs

STALL = 0.5


def read(*measured: tuple[int, int, float], decode: float = 0.0) -> Pace:
    """From (start, tokens, seconds) of chunks."""
    pace = Pace()
    for start, tokens, seconds in measured:
        pace.read(Reading(tokens, pairs(start, tokens), seconds))
    pace.decoded(decode)
    return pace


@pytest.mark.parametrize(
    ("pace", "decoding", "tokens"),
    [
        pytest.param(read(), True, 256, id="nothing measured yet"),
        pytest.param(read(), False, 1024, id="nothing measured, nobody waits"),
        pytest.param(read((0, 100, 1.0)), True, 50, id="half a second's worth"),
        pytest.param(read((0, 100, 1.0)), False, 200, id="two seconds' worth where nobody waits"),
        pytest.param(read((0, 100, 10.0)), True, FLOOR, id="never less than the floor"),
        pytest.param(read((0, 10_000, 1.0)), True, CEILING, id="never more than the ceiling"),
        pytest.param(read((0, 100, 1.0), (0, 100, 0.5)), True, 66, id="a running average"),
        pytest.param(read((0, 100, 1.0), (0, 4, 1.0), (0, 0, 0.0)), True, 50, id="tiny chunks tell nothing"),
        pytest.param(read((0, 100, 1.0), decode=0.2), True, 50, id="a decode step for which there is room"),
        pytest.param(read((0, 100, 1.0), decode=0.4), True, 30, id="less beside a long decode step"),
        pytest.param(read((0, 100, 0.5), decode=3.0), True, 25, id="something however long that is"),
        pytest.param(read((0, 100, 1.0), decode=0.4), False, 200, id="which matters only where there is one"),
    ],
)
def test_chunks_are_sized_by_time(pace: Pace, decoding: bool, tokens: int) -> None:
    assert pace.tokens(pace.budget(STALL, decoding), start=0) == pytest.approx(tokens, abs=1)


class Machine:
    """Takes `fixed` + `each` * tokens + `back` * pairs seconds for a chunk, `decode` for a step."""

    def __init__(self, fixed: float, each: float, back: float, decode: float) -> None:
        self.fixed, self.each, self.back, self.decode = fixed, each, back, decode
        self.pace = Pace()
        self.pace.decoded(decode)

    def seconds(self, start: int, tokens: int) -> float:
        return self.fixed + self.each * tokens + self.back * pairs(start, tokens)

    def read(self, start: int, tokens: int, more: float = 1.0) -> None:
        self.pace.read(Reading(tokens, pairs(start, tokens), more * self.seconds(start, tokens)))

    def gaps(self, prompt: int) -> list[float]:
        """Between tokens of streams beside which a prompt is read; a chunk is measured one step late."""
        gaps, start, late = list[float](), 0, (0, 0)
        while start < prompt:
            tokens = min(prompt - start, self.pace.tokens(self.pace.budget(STALL, True), start))
            gaps.append(self.seconds(start, tokens) + self.decode)
            self.read(*late)
            late, start = (start, tokens), start + tokens
        self.read(*late)
        return gaps


MACHINES = {
    "two cores, a small model": (0.06, 0.0033, 4.4e-6, 0.12),
    "two cores, quicker at looking back": (0.06, 0.0033, 1e-6, 0.1),
    "two cores, a larger model": (0.06, 0.008, 4.4e-6, 0.3),
    "a graphics processor": (0.02, 0.0004, 2e-8, 0.03),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_long_prompt_delays_streams_for_one_and_a_half_targets_at_most_and_is_not_cut_finer(machine: str) -> None:
    device = Machine(*MACHINES[machine])
    for length in (44, 44, 59, 177):
        device.read(0, length)
    for _ in range(3):
        gaps = device.gaps(3000 if device.each > 0.001 else 20_000)
        assert max(gaps) <= 1.6 * STALL
        assert sum(gaps) / len(gaps) > 0.75 * STALL


def test_what_a_disturbed_machine_taught_never_lets_the_next_prompt_stall_streams() -> None:
    drawn = random.Random(1)
    device = Machine(*MACHINES["two cores, a small model"])
    for start in range(0, 3000, 32):  # the longer it takes the more disturbed it is
        device.read(start, 32, more=1 + drawn.random() * 4 * start / 3000)
    assert device.gaps(3000)[0] <= 2 * STALL


def test_work_is_what_tokens_are_cut_by() -> None:
    pace = read(*((start, 100, 0.5 + 0.001 * start) for start in range(0, 3000, 100)))
    for start in (0, 500, 3000):
        assert pace.work(start, pace.tokens(200.0, start)) == pytest.approx(200, rel=0.1)
