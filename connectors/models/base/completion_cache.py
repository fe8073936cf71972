"""Completion cache: looks up prompts first, and stores completions on arrival."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from connectors.interfaces.errors import FinalError
from connectors.interfaces.models import Completion, Keep, LanguageModel, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.base.claims import Claim, leased
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import CostBudget

POLL_SECONDS = 0.05
"""Time between look-ups of completions that others request."""


class Recording:
    """A language model that requests from `inner` only completions missing in `store`.

    Each completion is stored on arrival. Failed ones (finish_reason "error") are returned but not stored, so the next
    run requests them again. A model with a method `remember(prompt, completion)` first receives, oldest first, every
    stored completion that it did not produce itself in this process: a model that draws without replacement must know
    earlier draws. Such a model's completions are separated by `scope` (the run), so the draws of one run do not reduce
    those of another. Threads and processes can call `complete` concurrently: a prompt that one of them requests is
    awaited by the others. `reused` counts cache hits.

    `cost_budget`: the run's money. A model with `complete_claimed` claims each prompt shortly before its call,
    and reserves and pays each call itself; other models are paid afterwards.
    """

    def __init__(
        self,
        inner: LanguageModel,
        store: CompletionStore,
        scope: str = "",
        cost_budget: CostBudget | None = None,
    ) -> None:
        self.inner = inner
        self.store = store
        self.scope = scope
        self.cost_budget = cost_budget
        self.reused = 0
        self._last_remembered = 0
        self._own: set[str] = set()
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.inner, self.store, self.scope, self.cost_budget)

    @property
    def name(self) -> str:
        """Name of the inner model."""
        return self.inner.name

    @property
    def identity(self) -> str:
        """Identity of the inner model."""
        return self.inner.identity

    def __getattr__(self, name: str) -> Any:
        """Return what else the inner model may have: `destinations`, `traffic`, `in_flight`, `prepare`."""
        return getattr(self.inner, name)

    @cached_property
    def store_key(self) -> str:
        """Key of the model in the store: its identity, with the scope if it remembers."""
        if self.scope and hasattr(self.inner, "remember"):
            return f"{self.identity} in {self.scope}"
        return self.identity

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; equal prompts share one request.

        Errors of the inner model pass through; completions that arrived before are stored.
        """
        call = _Call(prompts, keep)
        self._deliver_stored(call, is_reuse=True)
        with leased(self.store, self.store_key) as claim:
            # Each round requests what is free, and reads what others have stored. A claim of another process that
            # ends without a completion makes its prompts free again.
            while remaining := call.open:
                if keys := self.store.claimable(self.store_key, remaining):
                    self._request(call, keys, claim)
                self._deliver_stored(call)
                if call.open:  # others request the rest, unless their claims end
                    time.sleep(POLL_SECONDS)
        return [call.answers[key] for key in call.keys]

    def _deliver_stored(self, call: _Call, is_reuse: bool = False) -> None:
        for key, completion in self.store.lookup_many(self.store_key, call.open).items():
            with self._lock:  # before the completion is judged, see `FirstAnswers`
                self.reused += is_reuse * len(call.positions[key])
            call.deliver(key, completion)

    def _request(self, call: _Call, keys: Sequence[str], claim: Claim) -> None:
        """Request prompts, as far as they can be claimed."""
        received: set[str] = set()

        def receive(position: int, completion: Completion) -> None:
            received.add(keys[position])
            self._land(call, keys[position], completion)

        if complete_claimed := getattr(self.inner, "complete_claimed", None):
            complete_claimed([call.prompts[key] for key in keys], receive, claim, self.cost_budget)
        elif keys := claim(keys):
            # After the claim: a draw that another process stored before it must be known.
            self._remember()
            if prepare := getattr(self.inner, "prepare", None):
                prepare()
            call.seconds_since_last()  # neither a wait for others nor loading is part of the model's speed
            completions = self.inner.complete([call.prompts[key] for key in keys], receive)
            if len(completions) != len(keys):
                problem = f"returned {len(completions)} completions for {len(keys)} prompts"
                raise FinalError(f"Model '{self.name}' {problem}.")
            for key, completion in zip(keys, completions, strict=True):
                if key not in received:
                    self._land(call, key, completion)

    def _land(self, call: _Call, key: str, completion: Completion) -> None:
        """Store a completion and deliver the final one of its prompt."""
        # A model may return half a surrogate pair.
        completion = replace(
            completion, text=encodable(completion.text), error=encodable(completion.error)
        )
        if self.cost_budget is not None and not hasattr(self.inner, "complete_claimed"):
            self.cost_budget.pay(self.name, key, completion.dollars, completion.estimated)
        # One lock for the write and its note: `_remember` in another thread must not take this draw for a new one.
        with self._lock:
            seconds = call.seconds_since_last()
            final = self.store.put(
                self.store_key, self.name, call.prompts[key], completion, seconds
            )
            if final is completion and hasattr(self.inner, "remember"):
                self._own.add(key)
        call.deliver(key, final)

    def _remember(self) -> None:
        remember = getattr(self.inner, "remember", None)
        if remember is None:
            return
        with self._lock:
            for stored in self.store.since(self.store_key, self._last_remembered):
                key = stored.prompt.key
                if key not in self._own:
                    remember(stored.prompt, stored.completion)
                self._own.discard(key)
                self._last_remembered = stored.number


class _Call:
    """One call of `complete`: positions by key, and delivered completions."""

    def __init__(self, prompts: Sequence[Prompt], keep: Keep) -> None:
        self.prompts: dict[str, Prompt] = {}
        self.positions: dict[str, list[int]] = {}
        self.keys = [prompt.key for prompt in prompts]
        for position, (key, prompt) in enumerate(zip(self.keys, prompts, strict=True)):
            self.prompts.setdefault(key, prompt)
            self.positions.setdefault(key, []).append(position)
        self.answers: dict[str, Completion] = {}
        self._keep = keep
        self._lock = threading.Lock()
        self._last = time.monotonic()

    @property
    def open(self) -> list[str]:
        return [key for key in self.prompts if key not in self.answers]

    def seconds_since_last(self) -> float:
        """Return the seconds since the last call of this method, or since the beginning."""
        now = time.monotonic()
        seconds = now - self._last
        self._last = now
        return seconds

    def deliver(self, key: str, completion: Completion) -> None:
        # The caller's `keep` need not be thread-safe.
        with self._lock:
            self.answers[key] = completion
            for position in self.positions[key]:
                self._keep(position, completion)
