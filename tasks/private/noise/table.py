"""Exact discrete Gaussian noise for millions of numbers, drawn from a table of its distribution function.

For ordinary sizes the noise comes from OpenDP (discrete.py), which has been widely reviewed. Here a number costs a
hundredth of the time. There is no approximation, and so nothing to account for:

1. The law is P(X = k) = w_k / Z with w_k = exp(-k^2 / 2 sigma^2), for exactly the given sigma. |X| has the distribution
   function F(m) = (1 + 2 (w_1 + ... + w_m)) / Z, and X is |X| with the sign of a fair coin.
2. U is uniform on [0, 1): a sequence of fair bits. The least m with U < F(m) has exactly the law of |X| (inversion).
3. The first 64 bits of U are an integer u, and t_m is the integer part of 2^64 F(m). u < t_m means U < F(m); u > t_m
   means U > F(m), since u >= t_m + 1. So u decides, unless it equals a t_m: one draw in 2^64 / (number of t_m).
4. If u equals a t_m, further bits of U are drawn and compared with as many bits of F(m), until they differ. The table
   ends where t_m is the largest 64-bit integer: every later t_m equals it and is decided in the same way, for any |X|.
5. F(m) is bounded by two integers, computed with integers alone (`_Law`): each product is rounded down, each error is
   bounded, and a geometric series bounds the omitted terms of Z. A t_m is used only if both bounds give it.

The bits come from the operating system. As with OpenDP, the time of a draw depends on the noise, never on the values.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

LEAST_SIGMA, MOST_SIGMA = 0.5, 20_000.0
"""Range of sigma for the table: the bounds hold from the first; up to the second, building takes less than a second."""
BITS = 64
_GUARD = 192
_AT_A_TIME = 500_000


class _Law:
    """Bounds on the distribution function of |X|: integers with `precision` fractional bits.

    W_j denotes 2^p w_j: W_(j+1) = W_j R_j and R_(j+1) = R_j e^(-1/sigma^2), rounded down, since w_(j+1) / w_j =
    e^(-(2j+1) / (2 sigma^2)). Both exponentials are within 2 of 2^p times the number: decimal's exp and quotient are
    correctly rounded, with eight more digits than needed. So R_j is within 4j + 2 and W_j within 2j^2 + 2j; twice
    the sum of W_1 to W_m is within 4/3 (m+2)^3, which is less than 3 (m+1)^3 for m >= 3. The omitted terms of Z, from
    J on, add less than 1 + sigma: w_J < 2^-p since J^2 > 2 sigma^2 p. The ratio of two neighbours is at most e^-x with
    x = (2J+1) / (2 sigma^2), and 1 / (1 - e^-x) <= 1 + 1/x < 1 + sigma (as J > sigma) bounds the series.
    """

    def __init__(self, sigma: float, precision: int) -> None:
        exact = Fraction(sigma)
        half, whole = _exponentials(exact, precision)
        self.sums = [1 << precision]
        weight, ratio, last = 1 << precision, half, _last_term(exact, precision)
        for _ in range(last):
            weight, ratio = weight * ratio >> precision, ratio * whole >> precision
            self.sums.append(self.sums[-1] + 2 * weight)
        self.error = 3 * (last + 1) ** 3 + 2 * (3 + int(exact))

    def bounds(self, most: int, bits: int) -> tuple[int, int]:
        """Return a lower and an upper integer bound of 2^bits F(most)."""
        part, whole = self.sums[min(most, len(self.sums) - 1)], self.sums[-1]
        least = (part - self.error << bits) // (whole + self.error)
        if most >= len(self.sums) - 1:
            return least, 1 << bits
        return least, -((-(part + self.error) << bits) // (whole - self.error))


def draw(number: int, sigma: float) -> Integers:
    """Return `number` independent draws, int64; `sigma`: LEAST_SIGMA to MOST_SIGMA."""
    noise = np.empty(number, dtype=np.int64)
    for start in range(0, number, _AT_A_TIME):
        part = noise[start : start + _AT_A_TIME]
        part[:] = _signed(_magnitudes(np.frombuffer(os.urandom(8 * len(part)), dtype="<u8"), sigma))
    return noise


def _signed(magnitudes: Integers) -> Integers:
    coins = np.unpackbits(np.frombuffer(os.urandom(-(-len(magnitudes) // 8)), dtype=np.uint8), count=len(magnitudes))
    return np.where(coins == 1, -magnitudes, magnitudes)


def _magnitudes(prefixes: NDArray[np.uint64], sigma: float) -> Integers:
    """Return |X| for the first 64 bits of each U; draw more bits where necessary."""
    limits = table(sigma)
    magnitudes = np.searchsorted(limits, prefixes, side="left")
    for index in np.flatnonzero(limits[magnitudes] == prefixes).tolist():
        magnitudes[index] = resolve(int(prefixes[index]), BITS, sigma, int(magnitudes[index]), _more_bits)
    return magnitudes.astype(np.int64)


def _more_bits() -> int:
    return int.from_bytes(os.urandom(BITS // 8), "little")


@lru_cache(maxsize=8)
def table(sigma: float, bits: int = BITS) -> NDArray[np.uint64]:
    """Return t_0, t_1, ... up to the first that equals 2^bits - 1."""
    law, limits = law_of(sigma, bits + _GUARD), list[int]()
    while not limits or limits[-1] < (1 << bits) - 1:
        # Both bounds, with 128 more bits, have the integer part of 2^bits F(m) itself.
        least, largest = (bound >> 2 * BITS for bound in law.bounds(len(limits), bits + 2 * BITS))
        if min(largest, (1 << bits) - 1) != least:
            raise ArithmeticError("The table of the noise needs more precision.")  # probability 2^-128 for each t_m
        limits.append(least)
    return np.array(limits, dtype=np.uint64)


def resolve(prefix: int, bits: int, sigma: float, least: int, more: Callable[[], int]) -> int:
    """Return |X| >= `least` of the U whose first `bits` bits are `prefix`.

    `more` returns 64 further bits of U.
    """
    while True:
        law, candidate = law_of(sigma, bits + _GUARD), least
        while prefix >= law.bounds(candidate, bits)[1]:
            candidate += 1
        if prefix + 1 <= law.bounds(candidate, bits)[0]:
            return candidate
        prefix, bits = prefix << BITS | more(), bits + BITS


@lru_cache(maxsize=2)
def law_of(sigma: float, precision: int) -> _Law:
    """Return the law of one sigma, cached per process."""
    return _Law(sigma, precision)


def _exponentials(sigma: Fraction, precision: int) -> tuple[int, int]:
    """Return 2^precision e^(-1/(2 sigma^2)) and 2^precision e^(-1/sigma^2), within 2.

    Both are rounded down.
    """
    with localcontext(Context(prec=precision * 30103 // 100_000 + 12)) as context:
        square = sigma * sigma
        over = Decimal(square.denominator) / Decimal(square.numerator)
        whole = context.exp(-over)
        half = context.exp(-over / 2)
        scale = Decimal(1 << precision)
        return int(half * scale), int(whole * scale)


def _last_term(sigma: Fraction, precision: int) -> int:
    """Return a J > sigma with w_J < 2^-precision: J^2 > 2 sigma^2 precision ln 2."""
    return isqrt(int(2 * sigma * sigma * precision)) + int(sigma) + 2
