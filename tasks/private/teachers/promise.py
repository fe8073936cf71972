"""Noise of label counts and teachers' answers: sensitivity, scale, ledger charge.

Song et al. 2024, "LLM-based Privacy Data Augmentation Guided by Knowledge Distillation with a Distribution Tutor".
Their proof covers one answer; here all answers of a run are one release, with the sensitivity of all of them together:

- ``labels``: number of private rows of each class (the tutor, Eq. 3, noise on the counts)
- ``answers``: the teachers' probabilities, summed, for every query (Eq. 1)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, get_args

from tasks.accounting.composition import Adjacency, gaussian_epsilon, gaussian_sigma, mu_of
from tasks.accounting.integer_noise import Kind, SumNoise, check_promise
from tasks.accounting.promise import Protects, require

Part = Literal["labels", "answers"]

COUNT_STEPS: Final = 128
"""Integer steps of one row in a count, which makes the grid of the noise free."""

CLASSES: Final = ("generated", "private")
"""The two classes of a teacher; its answer is the probability of the second."""

ANSWER_STEPS: Final = 1024
"""Integer steps of a probability: each teacher's probabilities are multiples of 2^-10 that add up to 1."""


def public_part(queries: int) -> int:
    """Return the number of queries that are public rows, where there are public rows."""
    return queries // 2


PAPER_SIGMA: Final = 6.0
"""The paper's noise on a sum of the teachers' probabilities, for any number of queries."""


@dataclass(frozen=True, slots=True)
class TeacherPrivacy:
    """The privacy promise of one release for a row; every number is public.

    `numbers`: classes of the counts, or queries. `kind`: gaussian; laplace (delta 0); none: NOT PRIVATE. `printed`: the
    noise of the paper instead of the least.
    """

    part: Part
    epsilon: float
    delta: float
    numbers: int
    kind: Kind = "gaussian"
    adjacency: Adjacency = "add_remove"
    printed: bool = False
    protects: ClassVar[Protects] = "record"
    calibration: ClassVar = "tight"
    limits: ClassVar = {"part": get_args(Part), "kind": ("gaussian", "laplace", "none")}
    sizes: ClassVar = ("numbers",)

    def __post_init__(self) -> None:
        check_promise(self)

    @property
    def steps(self) -> int:
        """Integer steps of one row or probability."""
        return COUNT_STEPS if self.part == "labels" else ANSWER_STEPS

    @property
    def sensitivity(self) -> float:
        """By how much one row moves a whole release.

        The L2 norm, or the L1 norm for Laplace noise.

        Labels. A row counts for one class: 1. Replacing it by one of another class moves two counts by 1: sqrt(2), or 2
        in L1.

        Answers. Claim: adding or removing a row changes one teacher. A row's shard is a keyed hash of its own text,
        rows with equal texts count once, and a teacher is a function of its shard, of public texts and of public seeds.
        Hence the other teachers' answers are unchanged bit for bit, and one teacher's probabilities (p, 1 - p) become
        (q, 1 - q) with any p and q in [0, 1]: the sum moves by (q - p, p - q), of L2 norm sqrt(2) |q - p| <= sqrt(2)
        and L1 norm at most 2. It may do so in each of n queries: sqrt(2 n), or 2 n. (Averages over M teachers move by
        an M-th of this, and their noise scales equally.) Probabilities are rounded to integer steps before they are
        summed, p first and 1 - p from it: the bound holds in integers without slack. Replacing a row changes the shard
        that it leaves and the shard that the new row enters, two teachers that may both move the same way: twice as
        much.
        """
        exchanged = self.adjacency == "replace_one"
        # Two numbers that move by 1 each: a teacher's probabilities, or the counts of an exchanged row.
        pair = math.sqrt(2)
        queries = math.sqrt(self.numbers)
        if self.kind == "laplace":
            pair = 2.0
            queries = self.numbers
        if self.part == "labels" and exchanged:
            return pair
        if self.part == "labels":
            return 1.0
        one_teacher = pair * queries
        if exchanged:
            return 2.0 * one_teacher
        return one_teacher

    @property
    def printed_scale(self) -> float | None:
        """The noise that the paper prints, None for the least noise.

        Answers: sigma 6 for any number of queries. Labels: made for a distance of sqrt(2) between counts, for both
        adjacencies.
        """
        if not self.printed:
            return None
        if self.part == "answers":
            return PAPER_SIGMA
        return gaussian_sigma(self.epsilon, self.delta, math.sqrt(2))

    @property
    def reason(self) -> str:
        """Why one row moves a whole release no further."""
        norm = "L1" if self.kind == "laplace" else "L2"
        if self.part == "labels":
            what = "one row counts for one class"
        else:
            what = f"one row changes one teacher, whose two probabilities move in each of {self.numbers} queries"
        again = "; replacing it changes two" if self.adjacency == "replace_one" else ""
        return f"{what}: {norm} norm {self.sensitivity:.6g}{again}"


def affordable_answers(sigma: float, epsilon: float, delta: float) -> int:
    """Return how many answers with noise `sigma` fit into a budget.

    Adjacency: adding or removing one row.
    """
    return math.floor((mu_of(epsilon, delta) * sigma) ** 2 / 2)


def remaining_epsilon(
    epsilon: float, delta: float, spent: Sequence[float], pure: bool = False
) -> float:
    """Return the epsilon that remains after releases of `spent` at the same delta.

    mu^2 of Gaussian noise is additive; epsilon itself if any release is pure DP (`pure`). Raises ConfigError when
    nothing is left.
    """
    if math.isinf(epsilon):
        return epsilon
    rest = epsilon - sum(spent)
    if pure:
        require(
            rest > 0, "epsilon", f"more than {sum(spent):g}, which its other releases take", epsilon
        )
        return rest
    # Epsilons of Gaussian releases do not add up, the squares of their mu do: more remains than the difference.
    total = mu_of(epsilon, delta) ** 2 - sum(mu_of(part, delta) ** 2 for part in spent)
    others = ", ".join(f"{part:g}" for part in spent)
    require(total > 0, "epsilon", f"more than {others} of its other releases", epsilon)
    # Converted there and back, the epsilon of an only release would differ in its last digits.
    if not spent:
        return epsilon
    return gaussian_epsilon(math.sqrt(total), delta)


def survival(teachers: int, noise: SumNoise[TeacherPrivacy]) -> float:
    """Return the probability that a unanimous answer survives the noise.

    Depends on public numbers only. The difference of two noisy sums has twice their variance: Phi(M / (sqrt(2) sigma)).
    """
    if noise.scale == 0:
        return 1.0
    if noise.kind == "gaussian":
        return 0.5 * math.erfc(-teachers / (2 * noise.scale))
    # The difference of two Laplace draws exceeds -d with probability 1 - e^-d (2 + d) / 4.
    distance = teachers / noise.scale
    return 1 - math.exp(-distance) * (2 + distance) / 4
