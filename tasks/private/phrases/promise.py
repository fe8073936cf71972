"""Noise of the two parts of DP-KPS, sensitivity and joint cost.

Both parts release sums over documents, which avoids a division by a private count. Three settings:

- ``gaussian``: distinct terms, paired features averaged over a document's keyphrases, integer Gaussian noise
- ``pure``: the same sums with integer Laplace noise; delta 0
- ``paper``: the printed scale, 2 sqrt(2) I / epsilon (appendix A.2). It is printed for means, for which it lacks 1/|X|;
  here it is added to sums. It is made for one point; a document adds up to M points, hence the printed epsilon is no
  guarantee for documents. `epsilon_exact`, and with it the ledger, contains the exact cost of one document
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from tasks.accounting.composition import Adjacency, gaussian_epsilon, mu_of
from tasks.accounting.integer_noise import Kind, check_promise
from tasks.accounting.promise import Protects, require

Part = Literal["vocabulary", "density"]
Setting = Literal["gaussian", "pure", "paper"]

TERMS: Final = 10
"""Different terms of a document that count (S of the paper)."""

KEYPHRASES: Final = 10
"""Keyphrases of a document that count (M); the paper states no number."""

FEATURE_STEPS: Final = 4096
"""Integer steps of one feature: documents are rounded to multiples of 2^-12."""

COUNT_STEPS: Final = 128
"""Integer steps of one count under Gaussian noise, which makes its grid free; Laplace noise is exact on counts."""


@dataclass(frozen=True, slots=True)
class PartPrivacy:
    """The privacy promise of one part of DP-KPS for a document.

    Every number is public. `epsilon`, `delta`: of this part (`delta` counts for gaussian alone). `terms`: S, most
    distinct vocabulary terms of a document. `keyphrases`: M, most keyphrases. `frequencies`: D, of random Fourier
    features, 2 D numbers. `members`: structures of an ensemble, released together.
    """

    part: Part
    epsilon: float
    delta: float = 1e-5
    setting: Setting = "gaussian"
    terms: int = TERMS
    keyphrases: int = KEYPHRASES
    frequencies: int = 500
    members: int = 1
    adjacency: Adjacency = "add_remove"
    protects: ClassVar[Protects] = "record"
    limits: ClassVar = {"part": ("vocabulary", "density"), "setting": ("gaussian", "pure", "paper")}
    sizes: ClassVar = ("terms", "keyphrases", "frequencies", "members")

    def __post_init__(self) -> None:
        check_promise(self)

    @property
    def kind(self) -> Kind:
        """Gaussian or Laplace noise."""
        return "gaussian" if self.setting == "gaussian" else "laplace"

    @property
    def calibration(self) -> str:
        """The setting, as audits and reports name it."""
        return self.setting

    @property
    def width(self) -> int:
        """Numbers in the density that a document adds to, over all members."""
        return 2 * self.frequencies * self.members

    @property
    def steps(self) -> int:
        """Integer steps of one count or feature."""
        if self.part == "density":
            return FEATURE_STEPS
        if self.kind == "gaussian":
            return COUNT_STEPS
        return 1

    @property
    def sensitivity(self) -> float:
        """By how much one document moves the sums of its part.

        The L2 norm for gaussian, else the L1 norm. Vocabulary: S distinct terms, sqrt(S) or S. Density: cos^2 + sin^2 =
        1 for each of D frequencies, hence sqrt(D) or sqrt(2) D; an average over keyphrases is no longer than the
        longest. Printed features sqrt(2) cos(.) are summed over M keyphrases: sqrt(2) * 2 D * M. Rounding adds half a
        step to each number. Replacing a document costs twice as much in the density (features have both signs) and in
        L1, sqrt(2) times in the L2 norm of counts.
        """
        if self.part == "density":
            norm = self._feature_norm
            factor = 2.0
        elif self.kind == "gaussian":
            norm = math.sqrt(self.terms)
            factor = math.sqrt(2)
        else:
            norm = float(self.terms)
            factor = 2.0
        if self.adjacency == "replace_one":
            return norm * factor
        return norm

    @property
    def _feature_norm(self) -> float:
        """The norm of a document's rounded features."""
        pairs = self.frequencies * self.members
        if self.kind == "gaussian":
            return math.sqrt(pairs) + math.sqrt(self.width) / (2 * FEATURE_STEPS)
        # |cos| + |sin| <= sqrt(2) for each pair of an average: half of two printed features of up to sqrt(2).
        points = 0.5
        if self.setting == "paper":
            points = self.keyphrases
        return math.sqrt(2) * 2 * pairs * points + self.width / (2 * FEATURE_STEPS)

    @property
    def printed_scale(self) -> float | None:
        """The scale that the paper prints: S / epsilon for the vocabulary, 2 sqrt(2) I / epsilon for the density.

        The density's is the literature's for exchanging one point; members share epsilon equally. None for the least
        noise.
        """
        if self.setting != "paper":
            return None
        if self.part == "vocabulary":
            return self.terms / self.epsilon
        return 2 * math.sqrt(2) * 2 * self.frequencies * self.members / self.epsilon

    @property
    def reason(self) -> str:
        """Why one document moves the sums no further."""
        norm = "L2" if self.kind == "gaussian" else "L1"
        if self.part == "vocabulary":
            what = f"one document adds 1 to at most {self.terms} terms"
        elif self.setting == "paper":
            what = f"one document adds {self.keyphrases} points of {self.width} features up to sqrt(2), rounded"
        else:
            what = f"one document adds one average of {self.width // 2} pairs (cos, sin), rounded"
        again = "; replacing it moves as much again" if self.adjacency == "replace_one" else ""
        return f"{what}: {norm} norm {self.sensitivity:.6g}{again}"


def split_epsilon(
    epsilon: float, delta: float, setting: Setting, vocabulary: float | None
) -> tuple[float, float]:
    """Split `epsilon` into the epsilons of vocabulary and density.

    `vocabulary` fixes the first. Without it each has half of the additive quantity: mu^2 under Gaussian noise, else
    epsilon.
    """
    gaussian = setting == "gaussian"
    if vocabulary is None:
        half = epsilon / 2
        # mu^2 adds up, so each part has sqrt(1/2) of mu, which is more than half of epsilon.
        if gaussian:
            half = gaussian_epsilon(mu_of(epsilon, delta) * math.sqrt(0.5), delta)
        return half, half
    require(
        0 < vocabulary < epsilon,
        "vocabulary_epsilon",
        f"a number between 0 and {epsilon:g}",
        vocabulary,
    )
    if not gaussian:
        return vocabulary, epsilon - vocabulary
    rest = mu_of(epsilon, delta) ** 2 - mu_of(vocabulary, delta) ** 2
    return vocabulary, gaussian_epsilon(math.sqrt(rest), delta)
