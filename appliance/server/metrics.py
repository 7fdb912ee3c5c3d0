"""The numbers behind `/metrics`, in Prometheus' text format."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Sample = tuple[Labels, float]


@dataclass(slots=True)
class Counter:
    """A number per set of label values that only grows."""

    name: str
    text: str
    labels: Sequence[str] = ()
    _values: dict[Labels, float] = field(default_factory=dict)

    def add(self, *labels: str, by: float = 1) -> None:
        """Grow the counter of these label values, given in the order of `labels`."""
        self._values[labels] = self._values.get(labels, 0) + by

    def lines(self) -> Iterator[str]:
        yield from _family(self.name, self.text, "counter", self.labels, self._values.items())


@dataclass(slots=True)
class Histogram:
    """How often a value fell into each bucket; `bounds` are their upper ends, ascending."""

    name: str
    text: str
    labels: Sequence[str]
    bounds: Sequence[float]
    _counts: dict[Labels, list[int]] = field(default_factory=dict)
    _sums: dict[Labels, float] = field(default_factory=dict)

    def observe(self, *labels: str, value: float) -> None:
        """Count one value under these label values."""
        counts = self._counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.text, "histogram")
        names = [*self.labels, "le"]
        for labels, counts in self._counts.items():
            total = 0
            for bound, count in zip([*self.bounds, float("inf")], counts, strict=True):
                total += count
                yield _line(f"{self.name}_bucket", names, (*labels, _number(bound)), total)
            yield _line(f"{self.name}_sum", self.labels, labels, self._sums[labels])
            yield _line(f"{self.name}_count", self.labels, labels, total)


@dataclass(frozen=True, slots=True)
class Reading:
    """Values somebody else owns, read when they are asked for. `kind` is `gauge` or `counter`."""

    name: str
    text: str
    labels: Sequence[str]
    read: Callable[[], Iterable[Sample]]
    kind: str = "gauge"

    def lines(self) -> Iterator[str]:
        yield from _family(self.name, self.text, self.kind, self.labels, self.read())


def render(families: Iterable[Counter | Histogram | Reading]) -> bytes:
    """All families in Prometheus' text format."""
    return ("\n".join(line for family in families for line in family.lines()) + "\n").encode()


def _family(name: str, text: str, kind: str, names: Sequence[str], samples: Iterable[Sample]) -> Iterator[str]:
    yield from _head(name, text, kind)
    for labels, value in samples:
        yield _line(name, names, labels, value)


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, names: Sequence[str], labels: Labels, value: float) -> str:
    pairs = ",".join(f'{key}="{_escape(label)}"' for key, label in zip(names, labels, strict=True))
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _escape(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
