"""Calls of a language model's endpoints by outcome, for the people who watch a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

STEPS = 8
"""Classes of latencies per doubling: a percentile is exact to 5 %."""

OUTCOMES = ("answered", "refused", "failed", "timed_out", "repeated")
"""Fields of `Traffic` that count calls."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Calls of one endpoint by outcome. Can be summed.

    answered: responses with a completion. refused: too many requests (HTTP 429, 503, 529). failed: other server errors,
    broken connections and completions without text. timed_out: no response in time. repeated: calls after the first of
    a request. latencies: answered calls by class of their duration, see `class_of`. served: names of the models that
    answered, if others than asked. from_others: their answers. short_prompts: answers whose prompt the server probably
    cut.
    """

    answered: int = 0
    refused: int = 0
    failed: int = 0
    timed_out: int = 0
    repeated: int = 0
    latencies: Mapping[str, int] = field(default_factory=dict)
    served: Sequence[str] = ()
    from_others: int = 0
    short_prompts: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The calls by outcome."""
        return {name: getattr(self, name) for name in OUTCOMES}

    @property
    def _numbers(self) -> dict[str, int]:
        return self.counts | {"from_others": self.from_others, "short_prompts": self.short_prompts}

    def __add__(self, other: Traffic) -> Traffic:
        counts = {name: count + other._numbers[name] for name, count in self._numbers.items()}
        latencies = dict(Counter(self.latencies) + Counter(other.latencies))
        return Traffic(
            **counts,
            latencies=latencies,
            served=tuple(dict.fromkeys([*self.served, *other.served])),
        )

    def since(self, earlier: Traffic) -> Traffic:
        """Return the calls after an earlier state of the same endpoint."""
        counts = {name: count - earlier._numbers[name] for name, count in self._numbers.items()}
        latencies = dict(Counter(self.latencies) - Counter(earlier.latencies))
        return Traffic(**counts, latencies=latencies, served=self.served)

    def seconds(self, share: float) -> float | None:
        """Return the duration that a share of the answered calls did not exceed, None without any."""
        total = sum(self.latencies.values())
        passed = 0
        for name, count in sorted(self.latencies.items(), key=lambda pair: int(pair[0])):
            passed += count
            if passed >= share * total:
                return float(2 ** ((int(name) + 0.5) / STEPS) / 1000)
        return None


def class_of(seconds: float) -> str:
    """Return the class of a duration: k for 2**(k / 8) to 2**((k + 1) / 8) milliseconds."""
    # At least a millisecond: a duration of 0 has no logarithm. A text, because it is a key of JSON.
    return str(math.floor(STEPS * math.log2(max(seconds, 1e-3) * 1000)))


def traffic_of(model: object) -> dict[str, Traffic]:
    """Return the calls so far of a model by host; empty if it does not count them."""
    if not hasattr(model, "traffic"):
        return {}
    return dict(model.traffic())


def state_of(model: object) -> str:
    """Return a short text about a model's calls, or its present batch, for a progress line; empty without any."""
    if batch := getattr(model, "batch_in_progress", 0):
        return f"writing a batch of {batch}"
    total = sum(traffic_of(model).values(), Traffic())
    flying = limit = 0
    if hasattr(model, "in_flight"):
        flying, limit = model.in_flight()
    if not total.answered and not flying:
        return ""
    troubles = {"refused": total.refused, "failed": total.failed, "timed out": total.timed_out}
    late = total.seconds(0.95)
    troubles |= {"from another model": total.from_others, "prompts cut": total.short_prompts}
    parts = [
        f"{flying} of {limit} in flight",
        *(f"{count} {name}" for name, count in troubles.items() if count),
    ]
    if late is not None:
        parts.append(f"p95 {late:.2g} s")
    return ", ".join(parts)
