"""The kinds of releases of sums, votes aside, each declared once: contents, name in audits, attack, effect on a run.

An attack has a canary, a record with the largest allowed contribution.

The promise holds for any number of terms, frequencies or queries, because only the ratio of the noise to the
contribution counts; with few of them, an attack on Laplace noise proves more. So a release is attacked with the noise
that it has at `FEW` of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tasks.accounting.integer_noise import SumNoise
from tasks.audit.attacks import Ints, SumsAttack
from tasks.audit.made_up import KEY, no_records
from tasks.private.density import count as density
from tasks.private.phrases import count as keyphrases
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.sums import NoisySums, Sides, SumJob, release_sums
from tasks.private.teachers import answers as teachers
from tasks.private.teachers import labels as label_counts
from tasks.private.teachers.promise import TeacherPrivacy

FEW: Final = 1
"""Terms, frequencies or queries that are attacked. With 12 queries under Laplace noise, 1000 trials did not notice
noise a third as large as claimed."""
SELECTED: Final = "the noisy label counts and answers: the selected texts, their number per class, the student"


@dataclass(frozen=True, slots=True)
class SumKind:
    """A kind of release.

    `text`: its contents, with the sizes of its promise in braces. `audited`: the first two words of its mechanism in
    the findings of an audit. `canary`: its attack. `affected`: the outputs of a run that depend on it, empty if
    the next release of the run states them. `group`: the name under which reports know it.
    """

    text: str
    audited: str
    canary: Callable[[SumNoise[Any]], Sides]
    affected: str
    group: str


KINDS: Final = {
    "labels": SumKind(
        "the number of private rows in each class", "kd labels", label_counts.canary, SELECTED, "teachers"
    ),
    "answers": SumKind(
        "the answers of the teachers to {numbers} queries", "kd answers", teachers.answers_canary, SELECTED, "teachers"
    ),
    "vocabulary": SumKind(
        "the number of private rows with each public term (first {terms} of each)",
        "dp_kps vocabulary",
        keyphrases.vocabulary_canary,
        "",
        "vocabulary",
    ),
    "density": SumKind(
        "densities per class of the first {keyphrases} phrases of each row, by {frequencies} frequencies and {members} "
        "member(s)",
        "dp_kps density",
        keyphrases.density_canary,
        "the noisy counts and sums: phrases, prompts, synthetic texts, student",
        "keyphrases",
    ),
    "guidance": SumKind(
        "one sum of features per class for all iterations",
        "guidance density",
        density.canary,
        "the noisy density: selected examples, weights, prompts, selected texts, student",
        "density",
    ),
}
"""Every kind by its part."""


def part_attack(noise: SumNoise[Any]) -> SumsAttack:
    """Return the attack on a release of sums; where there are several sorts of noise, its name ends with the sort."""
    privacy, noise = noise.privacy, few_numbers(noise)
    name = KINDS[privacy.part].audited
    if isinstance(privacy, PartPrivacy):
        name = f"{name} {privacy.setting}"
    elif isinstance(privacy, TeacherPrivacy):
        name = f"{name} {privacy.kind}"
    sides, tools = KINDS[privacy.part].canary(noise), no_records()
    job = SumJob(tools.payer, noise, KEY)

    def draw(side: Any) -> list[Ints]:
        release = release_sums(tools, job, lambda: sides.clean(side))  # type: ignore[arg-type]
        return [NoisySums.from_bytes(release.output).sums]

    return SumsAttack(
        name,
        noise,
        what=f"who took part, by {privacy.part}",
        sides=(sides.without, sides.canary),
        clean=lambda side: sides.clean(side).sums,
        draw=draw,
    )


def few_numbers(noise: SumNoise[Any]) -> SumNoise[Any]:
    """Return noise with the same ratio to a record's contribution, for few terms, frequencies or queries."""
    privacy = few = noise.privacy
    if isinstance(privacy, PartPrivacy):
        few = replace(privacy, terms=FEW, frequencies=FEW, members=1)
    elif isinstance(privacy, TeacherPrivacy) and privacy.part != "labels":
        few = replace(privacy, numbers=min(FEW, privacy.numbers))
    return replace(noise, privacy=few, scale=noise.scale * few.sensitivity / noise.sensitivity)
