"""Fault injection: wraps any connector to test how a run survives failures."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError, FinalError, TemporaryError
from connectors.interfaces.models import Completion, Keep, LanguageModel, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.models.base.registry import refuse_unknown

TEMPORARY: Mapping[str, str] = {
    "rate_limit": "429 too many requests",
    "server_error": "500 internal server error",
    "timeouts": "the request timed out",
}
"""Shares of attempts that fail and are retried."""

SPOILT = ("refuse", "garbage", "empty", "slow")
"""Shares of prompts with a refusal, nonsense, an empty text, or a delay."""

REFUSAL = "I'm sorry, but I can't help with that."
GARBAGE = '{"choices": [{"text": null\x00\ufffd\ufffd <|endoftext|> \\u00'


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """Options of a configuration.

    inner: {connector, model, options} of the wrapped model. rate_limit, server_error, timeouts: shares (0 to 1) of
    attempts that fail; a prompt is retried `retries` times, `pause` seconds apart, and then gets finish_reason "error".
    refuse, garbage, empty, slow: shares of prompts with such a completion; slow ones take `seconds`. final_after:
    number of completions after which every call raises FinalError (a revoked key). outage_after: number of completions
    after which the next `outage_calls` calls raise TemporaryError. seed: selects the prompts that fail.
    """

    inner: Mapping[str, Any] = field(default_factory=dict)
    rate_limit: float = 0.0
    server_error: float = 0.0
    timeouts: float = 0.0
    refuse: float = 0.0
    garbage: float = 0.0
    empty: float = 0.0
    slow: float = 0.0
    seconds: float = 1.0
    retries: int = 3
    pause: float = 0.0
    final_after: int | None = None
    outage_after: int | None = None
    outage_calls: int = 1
    seed: int = 0

    @classmethod
    def read(cls, spec: ModelSpec) -> FaultOptions:
        """Check the options of a spec; ConfigError with the invalid one and a correction."""
        refuse_unknown(spec, [option.name for option in fields(cls)])
        options = cls(**spec.options)
        options._check(spec.name)
        return options

    def inner_spec(self, name: str) -> ModelSpec:
        """Return the spec of the wrapped model."""
        return ModelSpec(name, **{"connector": "ngram", **self.inner})

    def _check(self, name: str) -> None:
        for group in (tuple(TEMPORARY), SPOILT):
            shares = [getattr(self, option) for option in group]
            if not all(_number(share) and 0 <= share <= 1 for share in shares) or sum(shares) > 1:
                raise ConfigError(
                    f"Model '{name}': {', '.join(group)} are shares from 0 to 1 that add up to at most 1, got {shares}."
                )
        for option in ("seconds", "pause", "retries", "final_after", "outage_after", "outage_calls"):
            value = getattr(self, option)
            whole = option in ("seconds", "pause") or value is None or isinstance(value, int)
            if value is not None and not (_number(value) and whole and value >= 0):
                raise ConfigError(f"Model '{name}': {option} must be a number of at least 0, got {value!r}.")
        if not (
            isinstance(self.inner, Mapping) and set(self.inner) <= {"connector", "model", "options"} and self.inner
        ):
            raise ConfigError(f"Model '{name}': options.inner must be {{connector: ..., model: ..., options: ...}}.")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class FaultyModel:
    """Completions of `inner` with faults at seeded shares, like those of a vendor.

    The affected prompts depend on the seed, the prompt and, for temporary faults, the number of the attempt: a repeated
    request has a new chance. Errors of `inner` pass through. Thread-safe if `inner` is.
    """

    def __init__(self, name: str, inner: LanguageModel, options: FaultOptions) -> None:
        self._name, self._inner, self._options = name, inner, options
        self._lock = threading.Lock()
        self._attempts: Counter[str] = Counter()
        self._answered = 0
        self._refused_calls = 0

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> FaultyModel:
        """Open and wrap the inner model; ConfigError for invalid options of either."""
        from connectors.models.base.registry import open_model

        options = FaultOptions.read(spec)
        inner = open_model(options.inner_spec(spec.name))
        return (_RememberingFaultyModel if hasattr(inner, "remember") else cls)(spec.name, inner, options)

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check the options, and the inner model with its own connector."""
        from connectors.models.base.registry import check_model

        check_model(FaultOptions.read(spec).inner_spec(spec.name))

    def __reduce__(self) -> tuple[type[FaultyModel], tuple[str, LanguageModel, FaultOptions]]:
        return type(self), (self._name, self._inner, self._options)

    @property
    def name(self) -> str:
        """Name in the run."""
        return self._name

    @property
    def identity(self) -> str:
        """Identity of the inner model, with all fault settings."""
        faults = {key: value for key, value in asdict(self._options).items() if key != "inner"}
        return canonical({"connector": "faulty", "inner": self._inner.identity, **faults})

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; pass each to `keep` at once.

        Raises TemporaryError during an outage and FinalError after the last allowed completion. Completions before that
        are passed to `keep`.
        """
        if not prompts:
            return []
        completions: dict[int, Completion] = {}
        allowed = self._admit(len(prompts))
        passing: list[int] = []

        def deliver(position: int, completion: Completion) -> None:
            completions[position] = completion
            keep(position, completion)

        for position in range(allowed):
            failed = self._failed(prompts[position])
            if failed is None:
                passing.append(position)
            else:
                deliver(position, failed)
        if passing:
            self._inner.complete(
                [prompts[position] for position in passing],
                lambda index, completion: deliver(passing[index], self._spoilt(prompts[passing[index]], completion)),
            )
        if allowed < len(prompts):
            self._stop()
        return [completions[position] for position in range(len(prompts))]

    def _admit(self, count: int) -> int:
        """Return how many of `count` prompts precede the next outage or the end."""
        options = self._options
        with self._lock:
            left = count
            if options.final_after is not None:
                left = min(left, options.final_after - self._answered)
            if options.outage_after is not None and self._refused_calls < options.outage_calls:
                left = min(left, max(0, options.outage_after - self._answered))
            self._answered += left
            return left

    def _stop(self) -> None:
        options = self._options
        with self._lock:
            if options.final_after is not None and self._answered >= options.final_after:
                raise FinalError(f"Model '{self._name}': 401 the key was revoked after {options.final_after} calls.")
            self._refused_calls += 1
            raise TemporaryError(
                f"Model '{self._name}': 503 the service is down after {options.outage_after} completions.",
                retry_after=options.seconds,
            )

    def _failed(self, prompt: Prompt) -> Completion | None:
        """Try a prompt as often as allowed; return an error completion, None on success."""
        fault = None
        for attempt in range(self._options.retries + 1):
            if attempt:
                time.sleep(self._options.pause)
            with self._lock:
                number = self._attempts[prompt.key]
                self._attempts[prompt.key] += 1
            fault = self._drawn(tuple(TEMPORARY), f"{prompt.key} attempt {number}")
            if fault is None:
                break
        if fault is None:
            return self._refused(prompt)
        tries = self._options.retries + 1
        return Completion("", "error", error=f"{TEMPORARY[fault]} (after {tries} tries)")

    def _refused(self, prompt: Prompt) -> Completion | None:
        if self._drawn(SPOILT, prompt.key) != "refuse":
            return None
        return Completion(REFUSAL, "refused", len(prompt.text.split()), len(REFUSAL.split()))

    def _spoilt(self, prompt: Prompt, completion: Completion) -> Completion:
        fault = self._drawn(SPOILT, prompt.key)
        if fault == "slow":
            time.sleep(self._options.seconds)
        if fault in ("garbage", "empty") and completion.finish_reason in ("stop", "length"):
            return replace(completion, text=GARBAGE if fault == "garbage" else "")
        return completion

    def _drawn(self, group: Sequence[str], key: str) -> str | None:
        position = random.Random(f"{self._options.seed} {group[0]} {key}").random()
        for fault in group:
            position -= getattr(self._options, fault)
            if position < 0:
                return fault
        return None


class _RememberingFaultyModel(FaultyModel):
    """For an inner model that draws without replacement and needs earlier draws."""

    def remember(self, prompt: Prompt, completion: Completion) -> None:
        """Pass a completion of an earlier process to the inner model."""
        self._inner.remember(prompt, completion)  # type: ignore[attr-defined]
