"""The exponential that the CPU backend vectorises: made of multiplications, where its own calls the C library.

Off Apple's Accelerate that call costs about 12 ns a number: a third of a small model's time on a prompt.
"""

from functools import partial

import mlx.core as mx
import numpy as np

_RANGE, _SQUARINGS, _DEGREE = 10, 3, 7
"""exp(x) is exp(x / 8) to the eighth, which for x up to the range is a polynomial. That leaves out a twentieth of
what the squarings lose; with fewer of them it would need negative coefficients, and turn back beyond the range.
"""


def _terms() -> list[float]:
    """Of the polynomial in x that is closest to exp(x / 8) at Chebyshev's points, lowest power first."""
    parts = 2**_SQUARINGS
    fitted = np.polynomial.Chebyshev.interpolate(np.exp, _DEGREE, domain=[0, _RANGE / parts])
    powers = fitted.convert(kind=np.polynomial.Polynomial).coef
    return [float(term) / parts**power for power, term in enumerate(powers)]


_TERMS = _terms()


def exp_up(x: mx.array) -> mx.array:
    """exp of x >= 0; off by 2e-6 of itself below 10. Beyond that too small, yet ever larger, and in the end infinite,
    so that 1 / exp_up(-x) is right everywhere to 1e-6. Meant to be compiled into what uses it.
    """
    result = x * _TERMS[-1] + _TERMS[-2]
    for term in reversed(_TERMS[:-2]):
        result = result * x + term
    for _ in range(_SQUARINGS):
        result = result * result
    return result


@partial(mx.compile, shapeless=True)
def exp_down(x: mx.array) -> mx.array:
    """exp of -x for x >= 0; off by at most 1e-6."""
    return 1 / exp_up(x)
