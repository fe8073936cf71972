"""`python -m tests.studies.paid_calls`: print the tables; name some of them to see only those.

faults, processes, kills, money, shares and pace. All calls go to local servers that count and bill; nothing is paid.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Sequence

from tests.studies.paid_calls import faults, limits, money, processes

TABLES: dict[str, tuple[str, Sequence[str], Callable[[], Iterator[Sequence[object]]]]] = {
    "faults": ("Each fault once, 4 prompts", faults.COLUMNS, faults.rows),
    "processes": ("Equal prompts in several processes", processes.COLUMNS, processes.shared),
    "kills": ("kill -9, then the same prompts again", processes.COLUMNS, processes.killed),
    "money": ("A cap beside none: 600 calls of 200 to 400 ms, 64 in flight", money.COLUMNS, money.caps),
    "shares": ("Three models share a cap: 300 calls of 100 ms each, 32 in flight", money.SHARE_COLUMNS, money.shares),
    "pace": ("A server with a rate limit, calls of 200 ms", limits.COLUMNS, limits.rows),
}


def main() -> None:
    """Print the chosen tables, each row as it is known."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.paid_calls", description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="all if none is named")
    logging.disable(logging.WARNING)
    for name in parser.parse_args().tables or TABLES:
        title, columns, rows = TABLES[name]
        sys.stdout.write(f"\n{title}\n\n")
        _row(columns)
        _row(["---"] * len(columns))
        for row in rows():
            _row(row)


def _row(cells: Sequence[object]) -> None:
    sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
