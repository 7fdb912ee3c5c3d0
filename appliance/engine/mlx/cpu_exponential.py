"""The exponential that the CPU backend vectorises: made of multiplications, where its own calls the C library.

Off Apple's Accelerate that call costs about 12 ns a number: a third of a small model's time on a prompt.
"""

import math
from functools import partial

import mlx.core as mx

_SQUARINGS = 4
_TERMS = [1 / (math.factorial(k) * 2 ** (_SQUARINGS * k)) for k in range(9)]
"""Of the Taylor series of exp(x / 16), lowest power first. Below 10 the error it leaves is 7e-7 of the result."""


def exp_up(x: mx.array) -> mx.array:
    """exp of x >= 0; off by 2e-6 of itself below 10. Beyond that too small, yet ever larger, and in the end infinite,
    so that 1 / exp_up(-x) is right everywhere to 2e-6. Meant to be compiled into what uses it.
    """
    result = x * _TERMS[-1] + _TERMS[-2]
    for term in reversed(_TERMS[:-2]):
        result = result * x + term
    for _ in range(_SQUARINGS):
        result = result * result
    return result


@partial(mx.compile, shapeless=True)
def exp_down(x: mx.array) -> mx.array:
    """exp of -x for x >= 0; off by at most 2e-6."""
    return 1 / exp_up(x)
