"""Write the dataset card: README.md with the YAML header of the Hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from flows.publish.classifier_use import classifier_use
from flows.publish.recipe import describe_recipe, recipe
from flows.storage.audit_findings import AuditLine, describe_audits
from tasks.core.refs import Overlap
from tasks.metrics.usefulness import Accuracy
from tasks.reporting.report_model import Report
from tasks.reporting.text import added, charged, epsilon, promise, uncovered
from tasks.text.prompts import TaskCard

if TYPE_CHECKING:
    from flows.engine.approval import Approval

COLUMNS: Mapping[str, tuple[str, str]] = {
    "sample_id": ("integer", "number of the text in its run"),
    "text": ("text", "text written by a language model"),
    "label": ("text", "requested class"),
    "attribute": ("text", "requested variation, empty if none"),
    "plm": ("text", "language model that wrote the text"),
    "iteration": ("integer", "iteration of the run that created the text"),
}
"""The columns of synthetic.parquet and synthetic.jsonl: type and meaning."""
SOFT_COLUMN = ("numbers", "probability of each class for this text, in the order of the labels")
"""The column label_soft, if the run labelled its texts softly."""

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """Facts about the run of a bundle.

    `overlap` is None without a search for copies; `unsearched` has the reason.

    `approved`: the requester of the bundle and the approval by a second person; None if none was required.
    `audits`: the newest audits of its noise, all passed; possibly empty. `never_audited`: releases without an audit.
    `soft`: the rows have soft labels. `pooled`: the student is a fine-tuned sentence encoder. `reads`: what the student
    learned from besides the texts, possibly empty. `reached`: accuracies of the card's lines, by kind of features;
    `not_run`: why the lines were not run.
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
    never_audited: tuple[str, ...] = ()
    soft: bool = False
    pooled: bool = False
    reads: str = ""
    reached: Mapping[str, Accuracy] = field(default_factory=dict)
    not_run: str = ""

    @property
    def columns(self) -> Mapping[str, tuple[str, str]]:
        """Columns of the rows: type and meaning."""
        return {**COLUMNS, "label_soft": SOFT_COLUMN} if self.soft else COLUMNS

    @property
    def title(self) -> str:
        """Title of the dataset."""
        return f"Synthetic texts: {self.card.name}"

    @property
    def unit(self) -> str:
        """Neighbouring datasets of the privacy guarantee."""
        if not self.report.opens_rows:
            return "none, because no private rows were used"
        protects, adjacency = self.book["plan"]["protects"], self.book["plan"]["adjacency"]
        whom = "one record" if protects == "record" else f"one {protects}"
        return f"adding or removing {whom}" if adjacency == "add_remove" else f"replacing {whom} by another"

    @property
    def made_how(self) -> str:
        """Origin of the texts as a phrase."""
        if not self.report.opens_rows:
            return "written by language models without private records"
        if self.chosen:
            return "written by language models and selected by noisy answers of teachers trained on private records"
        released = "noisy votes" if "votes" in self.report.plan.kinds else "noisy releases"
        return f"written by language models guided by {released} of private records"

    @property
    def chosen(self) -> bool:
        """True if private records only trained teachers and set the class sizes."""
        return self.report.plan.kinds == {"teachers"}

    @property
    def copies(self) -> str:
        """Result of the search for private passages, without private numbers."""
        if self.overlap is None:
            return f"Texts were not searched for passages of private rows: {self.unsearched}."
        return (
            f"No text repeats {self.overlap.words} consecutive words of a private row, except passages that are "
            "also in a "
            f"public text ({self.overlap.mark}: this result was computed on private rows without noise and is not part "
            "of epsilon)."
        )


def dataset_card(facts: BundleFacts) -> str:
    """Return the text of README.md."""
    header = yaml.safe_dump(front_matter(facts), sort_keys=False, allow_unicode=True)
    sections = [
        f"# {facts.title}",
        _about(facts),
        _privacy(facts),
        _usefulness(facts),
        *(f"## {section.title}\n{section.text}" for section in facts.report.sections if section.text),
        _limits(facts),
        _data(facts),
        _use(facts),
        classifier_use(facts.book["config"], facts.pooled),
        _check(facts),
    ]
    return f"---\n{header}---\n\n" + "\n\n".join(sections) + "\n"


def front_matter(facts: BundleFacts) -> dict[str, Any]:
    """Return the YAML header of the card (Hugging Face Hub metadata)."""
    values: dict[str, Any] = {
        "pretty_name": facts.title,
        "license": facts.license,
        "language": [facts.card.language],
        "task_categories": ["text-classification"],
        "size_categories": [_size(facts.report.happened.samples)],
        "annotations_creators": ["machine-generated"],
        "language_creators": ["machine-generated"],
        "tags": ["synthetic", *(["differential-privacy"] if facts.report.opens_rows else []), "wasp"],
        "dataset_info": {"features": _features(facts)},
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": "synthetic.parquet"}]}],
    }
    if facts.license == "other":
        values["license_name"] = "not-stated"
    return values


def _features(facts: BundleFacts) -> list[dict[str, Any]]:
    """Return the columns as the library `datasets` reads them; labels become a ClassLabel."""
    dtypes = {"integer": "int64", "text": "string"}
    features: list[dict[str, Any]] = []
    for name, (kind, _) in facts.columns.items():
        features.append({"name": name, "dtype": dtypes[kind]} if kind in dtypes else {"name": name, "list": "float64"})
    names = {str(position): label for position, label in enumerate(facts.card.label_names)}
    label = next(feature for feature in features if feature["name"] == "label")
    label["dtype"] = {"class_label": {"names": names}}
    return features


def mechanisms(report: Report) -> list[str]:
    """Return one line per kind of noise in the output: scale and sensitivity."""
    lines: dict[str, int] = {}
    for charge in report.happened.charges:
        name = charge.mechanism.replace("_", " ").replace("gaussian", "Gaussian")
        line = f"{name} noise, standard deviation {charge.noise_scale:.4g} at sensitivity {charge.sensitivity:.4g}"
        lines[line] = lines.get(line, 0) + 1
    return [f"{times} x {line}" for line, times in lines.items()] or ["no release: no private row was used"]


def _size(rows: int) -> str:
    return next((name for limit, name in _SIZES if rows < limit), "n>1M")


def _about(facts: BundleFacts) -> str:
    models = ", ".join(facts.book["plan"]["models"])
    guided = " guided by private records under differential privacy" if facts.report.opens_rows else ""
    guided = " and selected with private records under differential privacy" if facts.chosen else guided
    return (
        f"{facts.report.happened.samples} texts ({facts.card.item}) written by language models ({models}){guided}. "
        f"`student/` is a classifier trained on these texts{f' and {facts.reads}' if facts.reads else ''}."
        + (f"\n\n**{facts.report.stub_warning}.**" if facts.report.stubs else "")
    )


def _privacy(facts: BundleFacts) -> str:
    report, plan = facts.report, facts.report.plan
    if not report.opens_rows:
        return "## Privacy statement\n" + _listed([*promise(report), facts.copies])
    statements = [
        f"Privacy loss of these texts: epsilon {report.happened.epsilon or 0.0:.4f} at delta {plan.delta:g}, for "
        f"all releases that they depend on; stated: {epsilon(plan.epsilon)}; planned noise by an exact "
        f"accountant: {plan.epsilon_exact:.4f}.",
        f"Added to the budget of the dataset by this run: epsilon {added(report.happened)}.",
        f"Unit and neighbours: {facts.unit}.",
        f"Releases: {report.happened.releases} ({charged(report.happened)}). Other runs on the same records add to the "
        "loss.",
        f"Mechanism: {'; '.join(mechanisms(report))}; calibration {plan.calibration}.",
        _seen(facts),
        facts.copies,
        describe_audits(facts.audits, facts.never_audited),
    ]
    return (
        "## Privacy statement\n" + _listed(statements) + "\n\n### Plain-language summary\n" + _listed(promise(report))
    )


def _seen(facts: BundleFacts) -> str:
    plan = facts.report.plan
    released = f" Released with noise: {'; '.join(plan.texts)}." if plan.texts else ""
    if facts.chosen:
        return f"No generating language model saw private records; teachers were trained on them privately.{released}"
    if "training" in plan.kinds:
        return f"One language model was trained on the private records with noise.{released}"
    voted = "; they only voted on synthetic texts" if "votes" in plan.kinds else ""
    return f"No language model saw the private records{voted}.{released}"


def _usefulness(facts: BundleFacts) -> str:
    useful = facts.report.usefulness
    if useful is None:
        return "## Usefulness\nThe student was not evaluated: the run had no test rows."
    warnings = [f"**Warning**: {warning}" for warning in useful.warnings]
    accuracies = [f"{measured}." for measured in useful.measured]
    chance = f"Chance: {100 * useful.chance:.1f} %. {useful.basis}."
    return "## Usefulness\nAccuracy on test rows:\n" + _listed([*accuracies, chance, *warnings])


def _limits(facts: BundleFacts) -> str:
    limits = [f"Not covered: {limit}." for limit in uncovered(facts.report)]
    limits.append("The test rows used to measure accuracy are not protected.")
    limits.append("Texts are synthetic: facts in them are invented and may be wrong or biased.")
    return "## Known limits\n" + _listed(limits)


def _data(facts: BundleFacts) -> str:
    columns = [f"`{name}` ({kind}): {meaning}" for name, (kind, meaning) in facts.columns.items()]
    labels = ", ".join(f"`{name}`" for name in facts.card.label_names)
    return "## Data\nThe same rows as Parquet and as JSON lines.\n" + _listed([*columns, f"labels: {labels}"])


def _use(facts: BundleFacts) -> str:
    """Return lines of Python that train a classifier on the rows, and what they reach on the test rows."""
    useful = facts.report.usefulness
    reached = describe_recipe(facts.reached, useful.chance if useful else 0.0, facts.not_run)
    return f"{recipe(facts.book['config'], facts.card.label_names, facts.soft)}\n\n{reached}"


def _check(facts: BundleFacts) -> str:
    agreed = f" Requested by {facts.approved[0]}; {facts.approved[1]}." if facts.approved else ""
    return (
        "## Check\n`manifest.json` contains the SHA-256 of every file and is signed (Ed25519, `manifest.sig`, "
        "`public_key.pem`). `wasp verify-bundle FOLDER` lists files that differ. Obtain the sender's public key "
        f"through another channel and pass it as `--key`.\n\nRun {facts.report.run_id}; "
        + (f"privacy ledger at {facts.head}." if facts.head else "not in a privacy ledger: no private row was used.")
        + agreed
    )


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
