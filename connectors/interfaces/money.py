"""Amounts of money as text."""

from __future__ import annotations

import math

SIGNIFICANT_DIGITS = 4


def format_dollars(amount: float) -> str:
    """Return dollars with four significant digits, never fewer than the cents: 0.005, 2.5, 12345.67."""
    if not amount or not math.isfinite(amount):
        return f"{amount:g}"
    decimals = max(2, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(amount))))
    return f"{amount:.{decimals}f}".rstrip("0").rstrip(".")


def of_which_estimated(amount: float) -> str:
    """Return the remark behind an amount whose tokens servers did not all report; empty for 0 dollars."""
    return f" (of which {format_dollars(amount)} estimated)" if amount else ""
