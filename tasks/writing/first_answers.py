"""Judgement of answers as they arrive, and the early stop of a paid model whose answers cannot be used."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from connectors.interfaces.errors import FinalError
from connectors.interfaces.models import Completion, LanguageModel
from connectors.interfaces.prompts import Prompt
from tasks.writing.cleaning import Cleaned, clean
from tasks.writing.endings import ends_in_the_middle
from tasks.writing.prompts import TaskCard

FINISHED = frozenset({"stop", "length"})

MAX_UNUSABLE: Final = 24
"""Unusable answers, without a usable one, after which a model is stopped."""

SHOWN: Final = 2
"""Raw answers in the message."""

SHOWN_CHARACTERS: Final = 160


def judge(completion: Completion, prompt: Prompt, card: TaskCard) -> Cleaned:
    """Return the cleaned text of a completion, with the reason why it cannot be used, if any."""
    cleaned = clean(completion.text, prompt, card.language, bool(card.prompt_language), card.form)
    if completion.finish_reason in FINISHED:
        return cleaned
    # A vendor's filter and a model that declines are one reason for the reader of a report.
    if completion.finish_reason == "refused":
        return Cleaned(cleaned.text, "refusal")
    return Cleaned(cleaned.text, completion.finish_reason)


@dataclass(slots=True)
class Tally:
    """Counts of the answers so far, for a progress line. `cut`: usable ones that end in the middle of a sentence."""

    left_out: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    several: int = 0

    def add(self, cleaned: Cleaned, completion: Completion) -> None:
        """Count an answer."""
        if cleaned.reason is not None:
            self.left_out[cleaned.reason] += 1
            return
        self.cut += ends_in_the_middle(cleaned.text, completion.finish_reason)
        self.several += cleaned.is_first_of_several

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.most_common())
        parts = []
        if reasons:
            parts.append(f"{self.left_out.total()} left out ({reasons})")
        if self.cut:
            parts.append(f"{self.cut} cut")
        if self.several:
            parts.append(f"{self.several} first of several")
        return ", ".join(parts)


class FirstAnswers:
    """Stops a paid model if none of its first answers is usable; one without destinations costs nothing and may go on.

    Stored answers are not counted, so a resumed run requests some again.
    """

    def __init__(self, model: LanguageModel, plm: str) -> None:
        self.model = model
        self.plm = plm
        # Models of other packages may have neither attribute: both belong to paid models.
        self.is_open = bool(getattr(model, "destinations", ()))
        self._stored_before = getattr(model, "reused", 0)
        self._seen = 0
        self._reasons: Counter[str] = Counter()
        self._examples: list[str] = []

    def add(self, completion: Completion, reason: str | None) -> None:
        """Count an answer; raise FinalError if none of the first ones is usable."""
        if not self.is_open:
            return
        self._seen += 1
        self.is_open = reason is not None
        # Stored answers come first.
        if reason is None or self._seen <= getattr(self.model, "reused", 0) - self._stored_before:
            return
        self._reasons[reason] += 1
        if len(self._examples) < SHOWN:
            self._examples.append(
                json.dumps((completion.error or completion.text)[:SHOWN_CHARACTERS])
            )
        if self._reasons.total() >= MAX_UNUSABLE:
            counts = ", ".join(f"{count} {reason}" for reason, count in self._reasons.most_common())
            raise FinalError(
                f"Model '{self.plm}': none of its first {MAX_UNUSABLE} answers is usable ({counts}), for example "
                f"{' and '.join(self._examples)}. Change its options or its model, then resume; wasp preview names the "
                "limits of the task that leave texts out."
            )
