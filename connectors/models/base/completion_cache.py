"""Completion cache: looks up prompts first, and stores completions on arrival."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from connectors.interfaces.errors import FinalError
from connectors.interfaces.models import Completion, Keep, LanguageModel, Usage, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import Purse


class Recording:
    """A language model that requests from `inner` only completions missing in `store`.

    Each completion is stored on arrival. Failed ones (finish_reason "error") are returned but not stored, so the next
    run requests them again. A model with a method `remember(prompt, completion)` first receives, oldest first, every
    stored completion that it did not produce itself in this process: a model that draws without replacement must know
    earlier draws. Such a model's completions are separated by `scope` (the run), so the draws of one run do not reduce
    those of another. Threads can call `complete` concurrently; a prompt in flight is awaited, not requested twice.
    `usage` sums the cost of this object's new completions; `reused` counts cache hits. `purse`: the run's money. A
    model with a method `worst_dollars(prompt)` gets only prompts that the purse can pay for.
    """

    def __init__(
        self, inner: LanguageModel, store: CompletionStore, scope: str = "", purse: Purse | None = None
    ) -> None:
        self.inner = inner
        self.store = store
        self.scope = scope
        self.purse = purse
        self.usage = Usage()
        self.reused = 0
        self._last_remembered = 0
        self._own: set[str] = set()
        self._in_flight: set[str] = set()
        self._lock = threading.RLock()
        self._landed = threading.Condition(self._lock)

    def __getstate__(self) -> dict[str, Any]:
        return {"inner": self.inner, "store": self.store, "scope": self.scope, "purse": self.purse}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["inner"], state["store"], state["scope"], state["purse"])  # type: ignore[misc]

    @property
    def name(self) -> str:
        """Name of the inner model."""
        return self.inner.name

    @property
    def identity(self) -> str:
        """Identity of the inner model."""
        return self.inner.identity

    @property
    def destinations(self) -> tuple[str, ...]:
        """The hosts that receive prompts; none for a local model."""
        return tuple(getattr(self.inner, "destinations", ()))

    @property
    def store_key(self) -> str:
        """Key of the model in the store: its identity, with the scope if it remembers."""
        apart = self.scope and hasattr(self.inner, "remember")
        return f"{self.identity} in {self.scope}" if apart else self.identity

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; equal prompts share one request.

        Errors of the inner model pass through; completions that arrived before are stored.
        """
        call = _Call(prompts, keep)
        first = True
        while call.open:
            self._deliver_stored(call, count=first)
            first = False
            with self._lock:
                own = [key for key in call.open if key not in self._in_flight]
                if not own:
                    if call.open:
                        self._landed.wait()
                    continue
                # Another thread may have finished a key after the look-up above.
                landed = self.store.lookup_many(self.store_key, own)
                own = [key for key in own if key not in landed]
                self._in_flight.update(own)
            if own:
                self._request_missing(call, own)
        return [call.answers[key] for key in call.keys]

    def _deliver_stored(self, call: _Call, count: bool) -> None:
        stored = self.store.lookup_many(self.store_key, list(call.open))
        for key in [key for key in call.open if key in stored]:
            if count:
                with self._lock:
                    self.reused += len(call.positions[key])
            call.deliver(key, stored[key])

    def _request_missing(self, call: _Call, keys: Sequence[str]) -> None:
        """Request the keys in waves that the remaining money can surely pay for."""
        open_keys = list(keys)
        try:
            while open_keys:
                wave, reserved = self._affordable(call, open_keys)
                try:
                    self._request_wave(call, wave)
                finally:
                    if self.purse is not None:
                        self.purse.release(reserved)
                open_keys = open_keys[len(wave) :]
        finally:
            with self._lock:
                self._in_flight.difference_update(keys)
                self._landed.notify_all()

    def _affordable(self, call: _Call, keys: list[str]) -> tuple[list[str], float]:
        worst = getattr(self.inner, "worst_dollars", None)
        if self.purse is None or worst is None:
            return keys, 0.0
        costs = [float(worst(call.prompts[key])) for key in keys]
        fitting = self.purse.reserve(costs)
        return keys[:fitting], sum(costs[:fitting])

    def _request_wave(self, call: _Call, keys: Sequence[str]) -> None:
        prompts = [call.prompts[key] for key in keys]
        received: set[int] = set()

        def receive(position: int, completion: Completion) -> None:
            received.add(position)
            call.deliver(keys[position], self._store(prompts[position], _encodable(completion)))

        self._remember()
        completions = self.inner.complete(prompts, receive)
        if len(completions) != len(prompts):
            raise FinalError(f"Model '{self.name}' returned {len(completions)} completions for {len(prompts)} prompts.")
        for position in sorted(set(range(len(prompts))) - received):
            receive(position, completions[position])

    def _store(self, prompt: Prompt, completion: Completion) -> Completion:
        with self._lock:
            self.usage = self.usage + completion.usage
            if self.purse is not None:
                self.purse.pay(self.name, prompt.key, completion.dollars, completion.estimated)
            final = self.store.put(self.store_key, self.name, prompt, completion)
            if final is completion:
                self._own.add(prompt.key)
        return final

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


def _encodable(completion: Completion) -> Completion:
    # A model may return half a surrogate pair.
    text, error = encodable(completion.text), encodable(completion.error)
    if (text, error) == (completion.text, completion.error):
        return completion
    return replace(completion, text=text, error=error)


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

    @property
    def open(self) -> Sequence[str]:
        return [key for key in self.prompts if key not in self.answers]

    def deliver(self, key: str, completion: Completion) -> None:
        # The caller's `keep` need not be thread-safe.
        with self._lock:
            self.answers[key] = completion
            for position in self.positions[key]:
                self._keep(position, completion)
