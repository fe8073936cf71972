"""The attacks on label counts and on answers of teachers."""

from dataclasses import replace

from tasks.accounting.integer_noise import SumNoise
from tasks.attacks.attack import SumsAttack
from tasks.private.sums_attack import FEW, sums_attack, with_promise
from tasks.private.teachers.answers import answers_canary
from tasks.private.teachers.labels import canary as labels_canary
from tasks.private.teachers.promise import TeacherPrivacy


def teachers_attack(noise: SumNoise[TeacherPrivacy]) -> SumsAttack:
    """Return the attack on label counts, or on answers, with this noise."""
    canary = labels_canary if noise.privacy.part == "labels" else answers_canary
    name = f"kd {noise.privacy.part} {noise.kind}"
    return sums_attack(name, few_numbers(noise), canary)


def few_numbers(noise: SumNoise[TeacherPrivacy]) -> SumNoise[TeacherPrivacy]:
    """Return noise with the same ratio to a record's contribution, for few queries; counts stay as they are."""
    few = noise.privacy
    if few.part != "labels":
        few = replace(few, numbers=min(FEW, few.numbers))
    return with_promise(noise, few)
