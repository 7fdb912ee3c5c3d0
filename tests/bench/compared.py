"""What the rounds of a comparison say: medians, ratios taken within a round, and whether the work was the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench import report
from tests.bench.process import NOISE_CORES
from tests.bench.stats import Interval, interval, markdown, percentile

OURS, SERVER, LOOP = "appliance", "mlx_lm.server", "BatchGenerator"


@dataclass(frozen=True, slots=True)
class Sample:
    """One load on one target. Times are seconds, `other_cores` is what everybody else used meanwhile."""

    round: int
    streams: int
    workload: str
    target: str
    tokens_per_second: float
    tokens: int
    cpu_seconds: float
    first: list[float]
    gaps: list[float]
    texts: list[str]
    other_cores: float

    @property
    def quiet(self) -> bool:
        return self.other_cores <= NOISE_CORES

    @property
    def kind(self) -> tuple[int, str]:
        return self.streams, self.workload


def ratio(ours: Sequence[Sample], theirs: Sequence[Sample]) -> tuple[Interval, str]:
    """The first speeds over the others by round, and how many rounds were quiet: noisy ones count only if all are."""
    others = {sample.round: sample for sample in theirs}
    pairs = [(sample, others[sample.round]) for sample in ours if sample.round in others]
    quiet = [pair for pair in pairs if all(sample.quiet for sample in pair)]
    ratios = [mine.tokens_per_second / other.tokens_per_second for mine, other in quiet or pairs]
    return interval(ratios), f"{len(quiet)}/{len(pairs)}"


def throughput(samples: Sequence[Sample]) -> str:
    """Medians of tokens/s, first token included, and the paired ratios: ours to every other's, ours to ours plain."""
    rows = list[list[object]]()
    for kind in _kinds(samples):
        mine = _of(samples, kind, OURS)
        for target in _targets(samples):
            theirs = _of(samples, kind, target)
            if theirs:
                compared = ("", "") if target == OURS else ratio(mine, theirs)
                rows.append([*kind, target, _speed(theirs), *compared])
        plain = _of(samples, (kind[0], "plain"), OURS)
        if kind[1] != "plain" and plain:
            rows.append([*kind, f"{OURS}, plain", _speed(plain), *ratio(mine, plain)])
    return markdown(["streams", "workload", "target", "tok/s", f"{OURS} to it", "quiet"], rows)


def latency(samples: Sequence[Sample]) -> str:
    """Time to the first text and between pieces of text, over all rounds."""
    rows = list[list[object]]()
    for kind in _kinds(samples):
        for target in _targets(samples):
            if mine := _of(samples, kind, target):
                first = [seconds for sample in mine for seconds in sample.first]
                gaps = [seconds for sample in mine for seconds in sample.gaps]
                times = (percentile(first, 50), percentile(gaps, 50), percentile(gaps, 95))
                noise = max(sample.other_cores for sample in mine)
                rows.append([*kind, target, *map(report.milliseconds, times), f"{noise:.2f}"])
    head = ["streams", "workload", "target", "TTFT p50 ms", "ITL p50 ms", "ITL p95 ms", "other cores, most"]
    return markdown(head, rows)


def cost(samples: Sequence[Sample]) -> str:
    """CPU seconds of each target's processes for a token, which other work on the machine changes least."""
    rows = list[list[object]]()
    for kind in _kinds(samples):
        for target in _targets(samples):
            if mine := _of(samples, kind, target):
                tokens = sum(sample.tokens for sample in mine)
                spent = sum(sample.cpu_seconds for sample in mine)
                rows.append([*kind, target, report.milliseconds(spent / tokens), f"{tokens / len(mine):.0f}"])
    return markdown(["streams", "workload", "target", "CPU ms per token", "tokens a load"], rows)


def sameness(samples: Sequence[Sample]) -> str:
    """How many of our plain answers are the same text as the other's: all did the same work where they are."""
    texts = {(s.round, s.streams, s.target): s.texts for s in samples if s.workload == "plain"}
    ours = [(key, n, text) for key, row in texts.items() if key[2] == OURS for n, text in enumerate(row)]
    others = [target for target in _targets(samples) if target != OURS]
    same = {o: sum(texts[*key[:2], o][n].strip() == text.strip() for key, n, text in ours) for o in others}
    return ", ".join(f"{count} of {len(ours)} answers as {other}'s" for other, count in same.items())


def _of(samples: Sequence[Sample], kind: tuple[int, str], target: str) -> list[Sample]:
    return [sample for sample in samples if (sample.kind, sample.target) == (kind, target)]


def _speed(samples: Sequence[Sample]) -> str:
    return f"{median(sample.tokens_per_second for sample in samples):.1f}"


def _kinds(samples: Sequence[Sample]) -> list[tuple[int, str]]:
    return sorted({sample.kind for sample in samples})


def _targets(samples: Sequence[Sample]) -> list[str]:
    return list(dict.fromkeys([OURS, *(sample.target for sample in samples)]))
