"""Counts of the answers of a language model that are not one whole text.

One value serves preview, report, card, MLflow and the state of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pandas as pd

from connectors.interfaces.traffic import Traffic
from tasks.metrics.iteration_record import IterationRecord
from tasks.writing.endings import count_cut
from tasks.writing.first_answers import Tally

MAX_SHARE: Final = 0.25
"""Share of a model's answers above which a run is degraded.

At most 6 % of the texts that people wrote in seven data sets end in the middle of a sentence.
"""

MAX_LEFT_OUT: Final = 0.4
"""The same for answers that were left out, which the model writes again.

Eight models of 2019 to 2024 have at most 20 % of their answers left out, the bundled one 30 % (short questions of bank
customers, "too_short" most often).
"""

OTHER_REASONS: Final = frozenset({"duplicate", "error", "exhausted", "surplus"})
"""Reasons that do not concern the form of an answer."""

READ: Final = "Read its answers with: wasp preview"


@dataclass(frozen=True, slots=True)
class Finding:
    """A number of answers or texts of one model that are not as requested, of how many, and what to do.

    `most`: share above which a run is degraded.
    """

    count: int
    total: int
    text: str
    advice: str
    most: float = MAX_SHARE

    @property
    def is_frequent(self) -> bool:
        """True if the share degrades a run."""
        return self.count > self.most * self.total

    def __str__(self) -> str:
        return f"{self.count} of {self.total} {self.text}"


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """Counts of one language model's answers.

    `texts`: those in the result, `cut` of which end in the middle of a sentence. `answers`: usable ones and those left
    out; `several` of the usable ones contained further texts, which were dropped. `left_out`: by reason. `calls`:
    answered calls of paid models; `from_others` of them by another model (`others`) than configured, `short_prompts`
    with fewer tokens reported than the prompt has.
    """

    texts: int = 0
    cut: int = 0
    answers: int = 0
    several: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    from_others: int = 0
    others: tuple[str, ...] = ()
    short_prompts: int = 0

    @property
    def findings(self) -> list[Finding]:
        """One finding per kind of answer that is not one whole text."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        others = ", ".join(self.others)
        findings = [
            Finding(
                self.cut, self.texts, "texts end in the middle of a sentence", "Raise max_tokens"
            ),
            Finding(
                sum(self.left_out.values()),
                self.answers,
                f"answers were left out ({reasons})",
                READ,
                MAX_LEFT_OUT,
            ),
            Finding(
                self.several,
                self.answers,
                "answers contained several texts; the first was used",
                READ,
            ),
            Finding(
                self.from_others,
                self.calls,
                f"answers came from another model ({others})",
                "Check `model`",
            ),
            Finding(
                self.short_prompts,
                self.calls,
                "prompts were probably cut by the server",
                "Raise its context",
            ),
        ]
        return [finding for finding in findings if finding.count]


def count_answers(facts: Sequence[IterationRecord], texts: pd.DataFrame) -> dict[str, AnswerCounts]:
    """Return the counts of each language model over all iterations; `texts`: those of the result."""
    sizes = {str(plm): int(size) for plm, size in texts["plm"].value_counts(sort=False).items()}
    cut = count_cut(texts)
    # Also models without a text in the result: their answers are what the reader must see.
    plms = dict.fromkeys(
        [*sizes, *(plm for iteration in facts for plm in (*iteration.usable, *iteration.failures))]
    )
    return {plm: _count(plm, facts, sizes.get(plm, 0), cut.get(plm, 0)) for plm in plms}


def _count(plm: str, facts: Sequence[IterationRecord], texts: int, cut: int) -> AnswerCounts:
    tally = Tally(cut=cut, several=sum(iteration.several.get(plm, 0) for iteration in facts))
    for iteration in facts:
        tally.left_out.update(iteration.failures.get(plm, {}))
    answers = sum(iteration.usable.get(plm, 0) for iteration in facts) + tally.left_out.total()
    # Endpoints are named "model at host"; a model may have had several.
    calls = [
        calls
        for iteration in facts
        for name, calls in iteration.endpoints.items()
        if name.partition(" at ")[0] == plm
    ]
    return replace(counts_of(tally, answers, sum(calls, Traffic())), texts=texts)


def counts_of(tally: Tally, answers: int, calls: Traffic) -> AnswerCounts:
    """Return the counts of one model's answers; all usable ones are texts of the result."""
    return AnswerCounts(
        texts=answers - tally.left_out.total(),
        cut=tally.cut,
        answers=answers,
        several=tally.several,
        left_out={
            reason: count for reason, count in tally.left_out.items() if reason not in OTHER_REASONS
        },
        calls=calls.answered,
        from_others=calls.from_others,
        others=tuple(calls.served),
        short_prompts=calls.short_prompts,
    )


def describe_findings(counts: Mapping[str, AnswerCounts]) -> list[str]:
    """Return the findings of all models as sentences without full stops, each with its model's name."""
    return [f"{plm}: {finding}" for plm, count in counts.items() for finding in count.findings]


def describe_problems(counts: Mapping[str, AnswerCounts], stubs: Sequence[str] = ()) -> list[str]:
    """Return the findings that degrade a run, each with its model's name and what to do.

    `stubs`: models whose texts are marked as not for use anyway, and which have no setting to change.
    """
    return [
        f"{plm}: {finding}. {finding.advice}"
        for plm, count in counts.items()
        for finding in count.findings
        if finding.is_frequent and plm not in stubs
    ]
