"""Describe a bundle: README.md with the YAML header of the Hub, and croissant.json."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from connectors.artifacts.atomic_files import file_sha256
from connectors.artifacts.columns import DESCRIPTIONS
from connectors.interfaces.json_values import Json
from connectors.interfaces.languages import ENGLISH, described
from flows.engine.audit_findings import AuditLine, describe_audits
from flows.publish.recipe import describe_recipe, encoder_of, learning_lines
from flows.runtime.manifest import Approval
from tasks.metrics.usefulness import Accuracy
from tasks.reporting import text as words
from tasks.reporting.run_record import RunRecord
from tasks.reporting.templates import template
from tasks.steps.values import Overlap
from tasks.students.training_set import BEST, SOFT, SOURCE, label_advice
from tasks.writing.forms import PROSE, form_of
from tasks.writing.language_check import is_recognised
from tasks.writing.prompts import TaskCard

KINDS = {"sample_id": "integer", "iteration": "integer", SOFT: "numbers"}


def columns_of(has_classes: bool, soft: bool, sources: bool = False) -> list[str]:
    """Return the columns of a bundle's synthetic.parquet and synthetic.jsonl."""
    columns = ["sample_id", "text"]
    if has_classes:
        columns.append("label")
    if soft:
        columns.append(BEST)
    columns += ["attribute", "plm", "iteration"]
    if soft:
        columns.append(SOFT)
    if sources:
        columns.append(SOURCE)
    return columns


# Size categories of dataset cards on the Hub.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """Facts about the run of a bundle.

    `overlap` is None without a search for copies; `unsearched` has the reason.

    `approved`: the requester of the bundle and the approval by a second person; None if none was required.
    `audits`: the newest audits of its noise, all passed; possibly empty. `never_audited`: releases without an audit.
    `soft`: the rows have soft labels. `pooled`: the student is a fine-tuned sentence encoder. `has_release_head`: the
    bundle has the class means of the release. `reads`: what the student learned from besides the texts, possibly empty.
    `reached`: accuracies of the card's lines, by kind of features; `not_run`: why the lines were not run. `findings`:
    answers of the language models that are not one whole text. `public_texts`: number of public texts in the bundle,
    None if its run had no corpus; they are marked by the column `source`.
    """

    report: RunRecord
    card: TaskCard
    book: Json
    made: str
    license: str
    overlap: Overlap | None = None
    unsearched: str = ""
    approved: tuple[str, Approval] | None = None
    audits: tuple[AuditLine, ...] = ()
    never_audited: tuple[str, ...] = ()
    soft: bool = False
    pooled: bool = False
    has_release_head: bool = False
    reads: str = ""
    reached: Mapping[str, Accuracy] = field(default_factory=dict)
    not_run: str = ""
    findings: Sequence[str] = ()
    public_texts: int | None = None

    @property
    def columns(self) -> Mapping[str, tuple[str, str]]:
        """Columns of the rows: type and meaning."""
        names = columns_of(self.card.has_classes, self.soft, bool(self.public_texts))
        return {name: (KINDS.get(name, "text"), DESCRIPTIONS[name]) for name in names}

    @property
    def title(self) -> str:
        """Title of the dataset."""
        return f"Synthetic texts: {self.card.name}"

    @property
    def unit(self) -> str:
        """Neighbouring datasets of the privacy guarantee."""
        if not self.report.opens_rows:
            return "none, because no private rows were used"
        protects = self.book["plan"]["protects"]
        adjacency = self.book["plan"]["adjacency"]
        if adjacency == "add_remove":
            return f"adding or removing one {protects}"
        return f"replacing one {protects} by another"

    @property
    def kind_of_texts(self) -> str:
        """Language, form and usual length of a text."""
        form = self.card.form or PROSE
        length = f", about {self.card.length}" if self.card.length else ""
        return f"{described(self.card.language)}; form {form} ({form_of(form).title}){length}"

    @property
    def language_limit(self) -> str:
        """Limit of texts in another language than English; empty for English."""
        language = self.card.language
        if language == ENGLISH:
            return ""
        checked = ""
        if self.card.prompt_language and is_recognised(language):
            checked = "; texts that were recognised as another language were left out"
        return f"The texts are in {described(language)}, which no measurement of this project covers{checked}"

    @property
    def made_how(self) -> str:
        """Origin of the texts as a phrase."""
        if not self.report.opens_rows:
            return "written by language models without private records"
        if self.chosen:
            return "written by language models and selected by noisy answers of teachers trained on private records"
        released = "noisy releases"
        if "votes" in self.report.kinds:
            released = "noisy votes"
        return f"written by language models guided by {released} of private records"

    @property
    def corpus(self) -> str:
        """Source and licence of the public texts, or that the bundle lacks them; empty without a corpus."""
        if self.public_texts is None:
            return ""
        choice = self.book["config"]["public_corpus"]
        origin = f"{choice['source']} (licence {choice['licence']})"
        if not self.public_texts:
            return (
                f"The public texts of {origin} are not in this bundle. The accuracies of the run are those of "
                "classifiers that also learned from them, as `student/` did."
            )
        return (
            f"{self.public_texts} further texts are copies of public texts of {origin}, which no language model wrote. "
            f"The column `{SOURCE}` marks them. They keep their licence."
        )

    @property
    def chosen(self) -> bool:
        """True if private records only trained teachers and set the class sizes."""
        return self.report.kinds == {"teachers"}

    @property
    def copies(self) -> str:
        """Result of the search for private passages, without private numbers."""
        if self.overlap is None:
            return f"Texts were not searched for passages of private rows: {self.unsearched}."
        return (
            f"No text repeats {self.overlap.passage} of a private row, except passages that are "
            "also in a "
            f"public text ({self.overlap.mark}: this result was computed on private rows without noise and is not part "
            "of epsilon)."
        )


def dataset_card(facts: BundleFacts) -> str:
    """Return the text of README.md."""
    report = facts.report
    useful = facts.report.usefulness
    config = facts.book["config"]
    text = template("card.md.j2").render(
        size=_size(report.n_synthetic + (facts.public_texts or 0)),
        facts=facts,
        report=report,
        useful=useful,
        words=words,
        mechanisms=mechanisms(report),
        audits=describe_audits(facts.audits, facts.never_audited),
        names=list(facts.card.label_names),
        encoder=encoder_of(config),
        learn=learning_lines(facts.soft),
        advice=label_advice(config.get("text_labels") == "hard") if facts.soft else "",
        reached=describe_recipe(facts.reached, useful.chance if useful else 0.0, facts.not_run),
        kind=config["student"]["kind"],
        pooled=facts.pooled,
    )
    return text.rstrip() + "\n"


def croissant(facts: BundleFacts, folder: Path) -> Json:
    """Return croissant.json of a bundle (Croissant 1.0, docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html)."""
    files = [folder / "synthetic.parquet", folder / "synthetic.jsonl"]
    text = template("croissant.json.j2").render(
        facts=facts, report=facts.report, words=words, files=files, sha256=file_sha256
    )
    described: Json = json.loads(text)
    return described


def mechanisms(report: RunRecord) -> list[str]:
    """Return one line per kind of noise in the output: scale and sensitivity."""
    lines = Counter(
        f"{charge.mechanism.replace('_', ' ').replace('gaussian', 'Gaussian')} noise, standard deviation "
        f"{charge.noise_scale:.4g} at sensitivity {charge.sensitivity:.4g}"
        for charge in report.charges
    )
    if not lines:
        return ["no release: no private row was used"]
    return [f"{times} x {line}" for line, times in lines.items()]


def _size(rows: int) -> str:
    return next((name for limit, name in _SIZES if rows < limit), "n>1M")
