"""An estimate from bytes becomes that of a family's tokenizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.control.calibration import BOUNDS, SMALLEST, learned

CASES = {
    "the first prompt decides": (None, 1000, 1300, 1.3),
    "short prompts say nothing": (None, SMALLEST - 1, 1300, None),
    "short prompts change nothing": (1.2, SMALLEST - 1, 1300, 1.2),
    "later ones move it a little": (1.0, 1000, 2000, 1.1),
    "an outlier counts as the bound": (None, 1000, 90000, 4.0),
    "another outlier": (None, 1000, 1, 0.25),
    "a prompt of nothing": (1.1, 1000, 0, 1.1),
}


@pytest.mark.parametrize(("scale", "estimated", "actual", "expected"), CASES.values(), ids=CASES)
def test_a_prompt_teaches(scale: float | None, estimated: int, actual: int, expected: float | None) -> None:
    assert learned(scale, estimated, actual) == pytest.approx(expected) if expected else expected is None


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), max_size=40))
def test_it_stays_within_bounds(prompts: list[tuple[int, int]]) -> None:
    scale = None
    for estimated, actual in prompts:
        scale = learned(scale, estimated, actual)
    assert scale is None or BOUNDS[0] <= scale <= BOUNDS[1]


def test_a_steady_tokenizer_is_met_within_two_percent() -> None:
    scale = None
    for _ in range(60):
        scale = learned(scale if scale is not None else 0.7, 1000, 1250)
    assert scale == pytest.approx(1.25, rel=0.02)
