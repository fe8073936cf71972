"""Amounts of money as text."""

import math

SIGNIFICANT_DIGITS = 4


def format_dollars(amount: float) -> str:
    """Return dollars with 4 significant digits and at least cents: 0.005, 12345.67."""
    if not amount or not math.isfinite(amount):
        return f"{amount:g}"
    decimals = max(2, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(amount))))
    return f"{amount:.{decimals}f}".rstrip("0").rstrip(".")


def of_which_estimated(amount: float) -> str:
    """Return the remark on the estimated part of an amount, '' for 0 dollars.

    An amount is estimated if servers did not report all its tokens.
    """
    if not amount:
        return ""
    return f" (of which {format_dollars(amount)} estimated)"
