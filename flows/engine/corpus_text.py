"""Describe the public texts of a run, for terminal, log, report and card."""

from connectors.interfaces.artifacts import ArtifactRef
from flows.engine.label_advice import has_unnamed
from flows.engine.tools import RunTools
from tasks.reporting.run_record import Section
from tasks.writing.prompts import TaskCard

FARTHER = (
    "It is farther than the written texts: measured corpora of this kind gained no more than as many further written "
    "texts, so write more texts instead."
)
"""docs/results/public_corpus.md, with class names that say something."""


def describe_nearness(tools: RunTools, card: TaskCard, corpus: ArtifactRef) -> str:
    """Return how near a corpus is to the released mean, compared with the written texts."""
    of_corpus, of_written = tools.artifacts.info(corpus)["nearness"]
    line = (
        f"Cosine of the mean vector to the mean of the release: corpus {of_corpus:.2f}, written texts {of_written:.2f} "
        "(private: computed from the release, no further epsilon)."
    )
    if of_corpus < of_written and not has_unnamed(card.labels):
        return f"{line} {FARTHER}"
    return line


def corpus_section(tools: RunTools, card: TaskCard, corpus: ArtifactRef) -> Section:
    """Return the section of report and card about the public texts of a run."""
    choice = tools.config.public_corpus
    assert choice is not None
    label = "of its nearest class mean"
    if tools.config.text_labels == "hard":
        label = "that is most likely"
    return Section(
        "Public texts",
        f"The classifiers also learned from {corpus.rows:,} texts of {choice.source} (licence {choice.licence}), which "
        f"no language model wrote. The release labels them: label is the class {label}. They cost no further epsilon, "
        f"and no private record chose them. {describe_nearness(tools, card, corpus)}",
    )
