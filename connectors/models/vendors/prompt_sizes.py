"""Detection of servers that cut prompts without a word, by the token counts that they report."""

import threading
from collections import Counter

MAX_BYTES_PER_TOKEN = 10
"""Bytes per reported token above which a part of the prompt is missing; English has four to five."""

MIN_REPORTS = 4
MIN_SPREAD = 1.25
"""Number of equal reports, and the ratio of their prompts' sizes, above which the equal count is the server's limit."""


class PromptSizes:
    """The sizes of prompts by the tokens that the servers of a model reported for them. Thread-safe."""

    def __init__(self) -> None:
        self._smallest: dict[int, int] = {}
        self._reports: Counter[int] = Counter()
        self._has_warned = False
        self._lock = threading.Lock()

    def is_short(self, size: int, tokens: int) -> bool:
        """Return whether `tokens` are too few for a prompt of `size` bytes.

        They are below a tenth of the bytes, or the highest count so far and reported for clearly shorter prompts, too.
        """
        with self._lock:
            self._smallest[tokens] = smallest = min(size, self._smallest.get(tokens, size))
            self._reports[tokens] += 1
            is_limit = tokens == max(self._reports) and self._reports[tokens] >= MIN_REPORTS
        return MAX_BYTES_PER_TOKEN * tokens < size or (is_limit and size >= MIN_SPREAD * smallest)

    def is_first_warning(self) -> bool:
        """Return True once."""
        with self._lock:
            is_first = not self._has_warned
            self._has_warned = True
        return is_first
