"""Early stop of a paid model whose answers cannot be used."""

import json
from collections import Counter
from typing import Final

from connectors.interfaces.errors import FinalError
from connectors.interfaces.models import Completion, LanguageModel
from connectors.interfaces.prompts import Prompt
from tasks.text.cleaning import clean

FINISHED = frozenset({"stop", "length"})

MOST_UNUSABLE: Final = 24
"""Unusable answers, without a usable one, after which a model is stopped."""

SHOWN: Final = 2
"""Raw answers in the message."""

SHOWN_CHARACTERS: Final = 160


def rejection(completion: Completion, prompt: Prompt, language: str) -> tuple[str, str | None]:
    """Return the cleaned text of a completion, and the reason why it cannot be used, if any."""
    cleaned = clean(completion.text, prompt, language)
    if completion.finish_reason not in FINISHED:
        return cleaned.text, "refusal" if completion.finish_reason == "refused" else completion.finish_reason
    return cleaned.text, cleaned.reason


class FirstAnswers:
    """Judges the answers of a model until one is usable; a model without destinations costs nothing and may go on.

    Stored answers are not counted, so a resumed run requests some again.
    """

    def __init__(self, model: LanguageModel, plm: str, language: str) -> None:
        self.model, self.plm, self.language = model, plm, language
        self.is_open = bool(getattr(model, "destinations", ()))
        self._stored_before = getattr(model, "reused", 0)
        self._seen = 0
        self._reasons: Counter[str] = Counter()
        self._examples: list[str] = []

    def judge(self, prompt: Prompt, completion: Completion) -> None:
        """Count an answer; raise FinalError if none of the first ones is usable."""
        if not self.is_open:
            return
        self._seen += 1
        _, reason = rejection(completion, prompt, self.language)
        self.is_open = reason is not None
        # Stored answers come first.
        if reason is None or self._seen <= getattr(self.model, "reused", 0) - self._stored_before:
            return
        self._reasons[reason] += 1
        if len(self._examples) < SHOWN:
            self._examples.append(json.dumps((completion.error or completion.text)[:SHOWN_CHARACTERS]))
        if self._reasons.total() >= MOST_UNUSABLE:
            counts = ", ".join(f"{count} {reason}" for reason, count in self._reasons.most_common())
            raise FinalError(
                f"Model '{self.plm}': none of its first {MOST_UNUSABLE} answers is usable ({counts}), for example "
                f"{' and '.join(self._examples)}. Change its options or its model, then resume."
            )
