"""Every answer of a language model is kept the moment it arrives, and looked up before anything is asked."""

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
    """A language model that asks `inner` only for what `store` does not hold, and stores each answer at once.

    Failed answers (finish_reason "error") are handed on and not stored, so they are asked again next time. A model
    with a method `remember(prompt, completion)` is told of every stored answer that it did not give itself in this
    process, oldest first, before it is asked anything: a model that draws without replacement must know what was
    drawn. Such a model's answers are kept apart by `scope` (the run): what one run drew is not missing in another.
    Threads may call `complete` at the same time; a prompt in flight is waited for, not asked twice.
    `usage` adds up what the fresh answers of this object cost; `reused` counts prompts answered from the store.
    `purse`: the run's money. A model with a method `worst_dollars(prompt)` is asked for no more than it can pay.
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
        self._told = 0
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
        """The hosts that receive prompts; none for a model on this machine."""
        return tuple(getattr(self.inner, "destinations", ()))

    @property
    def shelf(self) -> str:
        """Where the store keeps the answers: the model's identity, with the scope for a model that remembers."""
        apart = self.scope and hasattr(self.inner, "remember")
        return f"{self.identity} in {self.scope}" if apart else self.identity

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; equal prompts are asked once and share the answer.

        What the inner model raises passes through; all answers that had arrived are stored by then.
        """
        call = _Call(prompts, keep)
        first = True
        while call.open:
            self._answer_from_store(call, count=first)
            first = False
            with self._lock:
                mine = [key for key in call.open if key not in self._in_flight]
                if not mine:
                    if call.open:
                        self._landed.wait()
                    continue
                # A key may have landed between the look-up and this line.
                landed = self.store.lookup_many(self.shelf, mine)
                mine = [key for key in mine if key not in landed]
                self._in_flight.update(mine)
            if mine:
                self._ask(call, mine)
        return [call.answers[key] for key in call.keys]

    def _answer_from_store(self, call: _Call, count: bool) -> None:
        stored = self.store.lookup_many(self.shelf, list(call.open))
        for key in [key for key in call.open if key in stored]:
            if count:
                with self._lock:
                    self.reused += len(call.positions[key])
            call.deliver(key, stored[key])

    def _ask(self, call: _Call, keys: Sequence[str]) -> None:
        """Ask for the keys, all at once if the money allows, else as many at a time as it surely pays for."""
        open_keys = list(keys)
        try:
            while open_keys:
                wave, reserved = self._affordable(call, open_keys)
                try:
                    self._ask_wave(call, wave)
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

    def _ask_wave(self, call: _Call, keys: Sequence[str]) -> None:
        prompts = [call.prompts[key] for key in keys]
        heard: set[int] = set()

        def hear(position: int, completion: Completion) -> None:
            heard.add(position)
            call.deliver(keys[position], self._store(prompts[position], _encodable(completion)))

        self._remember()
        answers = self.inner.complete(prompts, hear)
        if len(answers) != len(prompts):
            raise FinalError(f"Model '{self.name}' gave {len(answers)} answers to {len(prompts)} prompts.")
        for position in sorted(set(range(len(prompts))) - heard):
            hear(position, answers[position])

    def _store(self, prompt: Prompt, completion: Completion) -> Completion:
        with self._lock:
            self.usage = self.usage + completion.usage
            if self.purse is not None:
                self.purse.pay(self.name, prompt.key, completion.dollars, completion.estimated)
            kept = self.store.put(self.shelf, self.name, prompt, completion)
            if kept is completion:
                self._own.add(prompt.key)
        return kept

    def _remember(self) -> None:
        remember = getattr(self.inner, "remember", None)
        if remember is None:
            return
        with self._lock:
            for stored in self.store.since(self.shelf, self._told):
                key = stored.prompt.key
                if key not in self._own:
                    remember(stored.prompt, stored.completion)
                self._own.discard(key)
                self._told = stored.number


def _encodable(completion: Completion) -> Completion:
    # A model may answer with half a surrogate pair.
    text, error = encodable(completion.text), encodable(completion.error)
    if (text, error) == (completion.text, completion.error):
        return completion
    return replace(completion, text=text, error=error)


class _Call:
    """One call of `complete`: which positions wait for which key, and what has been delivered."""

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
        # The callers' `keep` need not be safe for threads.
        with self._lock:
            self.answers[key] = completion
            for position in self.positions[key]:
                self._keep(position, completion)
