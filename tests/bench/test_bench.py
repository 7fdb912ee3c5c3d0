"""The measuring itself: statistics, and every server benchmark once on a fake engine in a real appliance."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import client, compared, liveness, memory, mixed, process, report, soak, workloads
from tests.bench.answer import Answer, Load, Outcome
from tests.bench.compared import Sample
from tests.bench.prompts import chats, words
from tests.bench.servers import Server, appliance
from tests.bench.stats import Interval, interval, markdown, percentile

SCRIPT = "words: [one, two, three]\nlength: 6\n"
TEXT = "one two three one two three"


@pytest.fixture
def source(tmp_path: Path) -> str:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    return f"fake:{script}"


@pytest.fixture
def server(source: str, tmp_path: Path) -> Iterator[Server]:
    with appliance(source, tmp_path) as started:
        yield started


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([3.0], Interval(3, 3, 3, 0), id="one"),
        pytest.param([5, 1, 4, 2, 3], Interval(1, 3, 5, 0.9375), id="five-are-too-few"),
        pytest.param([7, 6, 5, 4, 3, 2, 1], Interval(1, 4, 7, 0.984375), id="seven-from-end-to-end"),
        pytest.param(list(range(1, 10)), Interval(2, 5, 8, 0.9609375), id="nine-leave-out-the-ends"),
    ],
)
def test_an_interval_is_the_narrowest_that_holds_the_median_with_95_percent(
    values: list[float], expected: Interval
) -> None:
    assert interval(values) == expected


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        pytest.param([], 50, 0, id="nothing"),
        pytest.param([2, 1], 50, 1, id="half-of-two"),
        pytest.param(range(1, 101), 99, 99, id="99-of-100"),
        pytest.param(range(1, 11), 99, 10, id="99-of-ten-is-the-last"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_a_table_is_markdown() -> None:
    assert markdown(["a", "b"], [[1, 2.5], ["x", "y"]]) == "| a | b |\n| --- | --- |\n| 1 | 2.5 |\n| x | y |"


def test_chats_come_from_their_seed_and_differ_from_the_first_words_on() -> None:
    assert chats(8, 64, "a") == chats(8, 64, "a")
    starts = {words(4, f"a-{n}") for n in range(50)}
    assert len(starts) == 50


def test_the_ratio_leaves_noisy_rounds_out_unless_there_are_no_others() -> None:
    ours = [_sample(0, "appliance", 30, 0.05), _sample(1, "appliance", 10, 0.0)]
    theirs = [_sample(0, "mlx_lm.server", 20, 0.0), _sample(1, "mlx_lm.server", 20, 0.3)]
    assert compared.ratio(ours, theirs) == (Interval(1.5, 1.5, 1.5, 0), "1/2")
    assert compared.ratio(ours[1:], theirs) == (Interval(0.5, 0.5, 0.5, 0), "0/1")


def test_the_requests_of_a_load_have_extras_where_it_says_so() -> None:
    load = Load(chats(2, 16, "a"), 1, 4, extras=({"top_p": 0.5},))
    assert [extra for _, extra in load.requests] == [{"top_p": 0.5}, {}]


@pytest.mark.parametrize("workload", ["plain", "sampled"])
async def test_a_workload_is_the_same_for_every_target_and_is_answered(workload: str, server: Server) -> None:
    load = workloads.load(workload, "seed", 3, 16, 2, 8)
    assert load == workloads.load(workload, "seed", 3, 16, 2, 8)
    async with client.connections() as session:
        outcome = await client.run(session, server, load)
    assert all(answer.tokens for answer in outcome.answers)


@pytest.mark.parametrize(
    ("noises", "used", "said"),
    [
        pytest.param([0.0, 0.3, 0.1], [0.0, 0.1], "2/3", id="noisy-ones-are-left-out"),
        pytest.param([0.2, 0.3], [0.2, 0.3], "0/2", id="all-noisy-all-used"),
    ],
)
def test_samples_that_others_disturbed_are_left_out(noises: list[float], used: list[float], said: str) -> None:
    kept, count = report.quiet([_sample(0, "appliance", 1, noise) for noise in noises])
    assert ([sample.other_cores for sample in kept], count) == (used, said)


def test_an_answer_knows_its_first_text_and_its_gaps() -> None:
    answer = Answer(arrivals=(0.5, 0.75, 1.25), seconds=1.5, tokens=4, text="abc")
    assert (answer.first, answer.gaps) == (0.5, [0.25, 0.5])
    assert Answer(arrivals=(), seconds=1.5, tokens=1, text="").first == 1.5
    assert Outcome(2.0, (answer, answer)).tokens_per_second == 4


async def test_a_load_is_answered_in_order_with_text_tokens_and_times(server: Server) -> None:
    async with client.connections() as session:
        outcome = await client.run(session, server, Load(chats(5, 16, "load"), streams=2, max_tokens=100))
    assert [answer.text for answer in outcome.answers] == [TEXT] * 5
    assert all(answer.tokens >= 6 and answer.first > 0 for answer in outcome.answers)
    assert outcome.seconds >= max(answer.arrivals[-1] for answer in outcome.answers)


async def test_a_refused_request_is_not_a_measurement(server: Server) -> None:
    async with client.connections() as session:
        with pytest.raises(client.AskFailed, match="appliance answered 4"):
            await client.ask(session, server, [], 4)


async def test_liveness_probes_beside_decode_and_prefill(source: str, tmp_path: Path) -> None:
    slow = tmp_path / "slow.yaml"
    slow.write_text("words: [one, two]\nlength: 60\nstep_ms: 5\nprefill_ms_per_token: 0.05\n")
    with appliance(f"fake:{slow}", tmp_path) as server:
        probes = await liveness.measure(server, "seed")
    assert list(probes) == ["idle", "8 streams decode", "1200-token prefill"]
    assert all(probes.values())


def test_memory_is_read_at_each_moment_and_the_engine_goes_in_between(source: str) -> None:
    sizes = memory.measure(source)
    assert len(sizes) == len(memory.MOMENTS)
    assert sizes[1] > sizes[0] and sizes[1] > sizes[2] and sizes[3] > sizes[4]


def test_a_stopped_server_leaves_no_process_behind(source: str, tmp_path: Path) -> None:
    with appliance(source, tmp_path) as server:
        assert server.pid in process.tree(os.getpid())
        assert process.pss_bytes(server.pid) > 0 < process.cpu_seconds(server.pid)
    assert server.pid not in process.tree(os.getpid())


def test_a_soak_answers_everybody_and_lets_nothing_grow(tmp_path: Path) -> None:
    scripts = [tmp_path / f"{name}.yaml" for name in ("steady", "even", "odd")]
    for script in scripts:
        script.write_text(SCRIPT + "step_ms: 2\n")

    def deploy(number: int) -> dict[str, object]:
        steady = {"source": f"fake:{scripts[0]}", "sampling": {"top_p": 0.5 + number % 2 / 10}}
        return {"models": {"steady": steady, "tossed": {"source": f"fake:{scripts[1 + number % 2]}"}}}

    soaked = soak.soak(deploy, 20, clients=4, max_tokens=8, pace=1.5)
    assert soaked.failures == ()
    assert all(soaked.counts[kind] for kind in (*mixed.PROTOCOLS, "left early", "reload", "load", "kills"))
    descriptors = [reading.engine_descriptors for reading in soaked.readings]
    assert set(descriptors) == {descriptors[0]}
    assert "| threads of the server |" in soak.table(soaked)


def test_a_slope_is_that_of_most_pairs_of_readings() -> None:
    figures = [100, 101, 102, 900, 104]
    readings = [soak.Reading(60.0 * at, size, *[0] * 7) for at, size in enumerate(figures)]
    assert soak.slope(readings, "server_pss") == 60
    assert soak.slope(readings, "engine_pss") == 0


def _sample(number: int, target: str, speed: float, other_cores: float) -> Sample:
    return Sample(number, 4, "plain", target, speed, 128, 1.0, [0.1], [0.01], ["text"], other_cores)
