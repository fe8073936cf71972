"""The dataset card of a bundle: README.md with the YAML header that the Hugging Face hub reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tasks.core.refs import Overlap
from tasks.reporting.ledger_page_model import AuditLine
from tasks.reporting.report_model import Report
from tasks.reporting.text import added, charged, epsilon, promise, uncovered
from tasks.text.prompts import TaskCard

if TYPE_CHECKING:
    from flows.engine.approval import Approval

COLUMNS: Mapping[str, tuple[str, str]] = {
    "sample_id": ("integer", "number of the text in its run"),
    "text": ("text", "what a language model wrote"),
    "label": ("text", "the class that it was asked for"),
    "attribute": ("text", "the variation that it was asked for, empty if none"),
    "plm": ("text", "which language model wrote it"),
    "iteration": ("integer", "round of the run that it was written in"),
}
"""The columns of synthetic.parquet and synthetic.jsonl: type and meaning."""

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True, slots=True)
class Told:
    """What a bundle tells about its run. `overlap`: None if it was not searched for copies, and then `unsearched`.

    `approved`: who asked for the bundle and who else approved it, None if nobody was asked.
    `audits`: the newest audits of its noise, none of them red; empty if there is none.
    """

    report: Report
    card: TaskCard
    book: Mapping[str, Any]
    head: str
    made: str
    license: str
    overlap: Overlap | None
    unsearched: str = ""
    approved: tuple[str, Approval] | None = None
    audits: tuple[AuditLine, ...] = ()

    @property
    def title(self) -> str:
        """The name of the data set."""
        return f"Synthetic texts: {self.card.name}"

    @property
    def unit(self) -> str:
        """The neighbouring data sets between which the promise holds."""
        if not self.report.opens_rows:
            return "none, as no private rows were opened"
        protects, adjacency = self.book["plan"]["protects"], self.book["plan"]["adjacency"]
        whom = "one record" if protects == "record" else f"one {protects}"
        return f"adding or removing {whom}" if adjacency == "add_remove" else f"replacing {whom} by another"

    @property
    def made_how(self) -> str:
        """How the texts came about, in a phrase."""
        if not self.report.opens_rows:
            return "written by language models without private records"
        if self.chosen:
            return (
                "written by language models and chosen by noisy answers of teachers that learned from private records"
            )
        released = "noisy votes" if "votes" in self.report.plan.kinds else "noisy releases"
        return f"written by language models that were guided by {released} of private records"

    @property
    def chosen(self) -> bool:
        """Whether private records did nothing but teach who chooses, and say how many texts of each class are kept."""
        return self.report.plan.kinds == {"teachers"}

    @property
    def copies(self) -> str:
        """What is known about passages of private rows in the texts; never a number that was computed on them."""
        if self.overlap is None:
            return f"Texts were not searched for passages of private rows: {self.unsearched}."
        return (
            f"No run of {self.overlap.words} words of a private row stands in a text, unless it stands in a public one "
            f"too ({self.overlap.mark}: this one answer was computed on private rows without noise and is no part of "
            "epsilon)."
        )


def audited(audits: Sequence[AuditLine]) -> str:
    """Say what the newest audits of a run's noise proved, or that there is none."""
    if not audits:
        return "Not audited: no audit of this noise stands in the state folder of the run."
    each = "; ".join(
        f"{one.mechanism} on {one.ended[:10]}, at least epsilon {one.proven:.4f} of {one.claimed:.4f} claimed "
        f"({one.run_id})"
        for one in audits
    )
    return f"Audited, and no attack proved more than is claimed: {each}. A passed attack proves nothing beyond itself."


def dataset_card(told: Told) -> str:
    """Return README.md."""
    header = yaml.safe_dump(front_matter(told), sort_keys=False, allow_unicode=True)
    sections = [
        f"# {told.title}",
        _about(told),
        _privacy(told),
        _usefulness(told),
        _limits(told),
        _data(told),
        _check(told),
    ]
    return f"---\n{header}---\n\n" + "\n\n".join(sections) + "\n"


def front_matter(told: Told) -> dict[str, Any]:
    """Return the header of the card in the hub's words (dataset card metadata)."""
    values: dict[str, Any] = {
        "pretty_name": told.title,
        "license": told.license,
        "language": [told.card.language],
        "task_categories": ["text-classification"],
        "size_categories": [_size(told.report.happened.samples)],
        "annotations_creators": ["machine-generated"],
        "language_creators": ["machine-generated"],
        "tags": ["synthetic", *(["differential-privacy"] if told.report.opens_rows else []), "wasp"],
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": "synthetic.parquet"}]}],
    }
    if told.license == "other":
        values["license_name"] = "not-stated"
    return values


def mechanisms(report: Report) -> list[str]:
    """Return one line for every kind of noise in the run's output, with scale and sensitivity."""
    lines: dict[str, int] = {}
    for one in report.happened.charges:
        name = one.mechanism.replace("_", " ").replace("gaussian", "Gaussian")
        line = f"{name} noise, standard deviation {one.noise_scale:.4g} at sensitivity {one.sensitivity:.4g}"
        lines[line] = lines.get(line, 0) + 1
    return [f"{times} x {line}" for line, times in lines.items()] or ["no release: no private row was used"]


def _size(rows: int) -> str:
    return next((name for limit, name in _SIZES if rows < limit), "n>1M")


def _about(told: Told) -> str:
    models = ", ".join(told.book["plan"]["models"])
    guided = " that were guided by private records under differential privacy" if told.report.opens_rows else ""
    guided = " and chosen with private records under differential privacy" if told.chosen else guided
    return (
        f"{told.report.happened.samples} texts ({told.card.item}) written by language models ({models}){guided}. "
        "`student/` is a classifier trained on these texts alone."
    )


def _privacy(told: Told) -> str:
    report, plan = told.report, told.report.plan
    if not report.opens_rows:
        return "## Privacy statement\n" + _listed([*promise(report), told.copies])
    facts = [
        f"Privacy loss of these texts: epsilon {report.happened.epsilon or 0.0:.4f} at delta {plan.delta:g}, all "
        f"releases that they depend on together; stated: {epsilon(plan.epsilon)}; the planned noise by an exact "
        f"accountant: {plan.epsilon_exact:.4f}.",
        f"Added to the budget of the dataset by this run: epsilon {added(report.happened)}.",
        f"Unit and neighbours: {told.unit}.",
        f"Releases: {report.happened.releases} ({charged(report.happened)}). Other runs on the same records add to the "
        "loss.",
        f"Mechanism: {'; '.join(mechanisms(report))}; calibration {plan.calibration}.",
        _seen(told),
        told.copies,
        audited(told.audits),
    ]
    return "## Privacy statement\n" + _listed(facts) + "\n\n### In plain words\n" + _listed(promise(report))


def _seen(told: Told) -> str:
    plan = told.report.plan
    released = f" Released under noise: {'; '.join(plan.texts)}." if plan.texts else ""
    if told.chosen:
        return (
            "No text of the private records was shown to a language model that writes; teachers learned from them in "
            f"private.{released}"
        )
    if "training" in plan.kinds:
        return f"One language model learned from the private records under noise.{released}"
    voted = "; they only voted on synthetic texts" if "votes" in plan.kinds else ""
    return f"No text of the private records was shown to a language model{voted}.{released}"


def _usefulness(told: Told) -> str:
    useful = told.report.usefulness
    if useful is None:
        return "## Usefulness\nThe student was not measured: the run had no test rows."
    warnings = [f"**Warning**: {warning}" for warning in useful.warnings]
    return "## Usefulness\n" + _listed([f"Accuracy on test rows: {useful.line}.", f"{useful.basis}.", *warnings])


def _limits(told: Told) -> str:
    limits = [f"Not covered: {one}." for one in uncovered(told.report)]
    limits.append("Test rows, with which accuracy was measured, are not protected.")
    limits.append("Texts are synthetic: facts in them are invented and may be wrong or biased.")
    return "## Known limits\n" + _listed(limits)


def _data(told: Told) -> str:
    columns = [f"`{name}` ({kind}): {meaning}" for name, (kind, meaning) in COLUMNS.items()]
    labels = ", ".join(f"`{name}`" for name in told.card.label_names)
    return "## Data\nThe same rows as Parquet and as JSON lines.\n" + _listed([*columns, f"labels: {labels}"])


def _check(told: Told) -> str:
    agreed = f" {told.approved[0]} asked for this bundle; {told.approved[1]}." if told.approved else ""
    return (
        "## Check\n`manifest.json` holds the SHA-256 of every file and is signed (Ed25519, `manifest.sig`, "
        "`public_key.pem`). `wasp verify-bundle FOLDER` says which file differs. Ask the sender for the public key by "
        f"another way and pass it as `--key`.\n\nRun {told.report.run_id}; "
        + (f"budget book at {told.head}." if told.head else "no budget book holds it: no private row was opened.")
        + agreed
    )


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
