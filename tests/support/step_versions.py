"""The files that make up each step's meaning. `python -m tests.support.step_versions` writes the record."""

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

from tasks.core.reuse import VERSIONS
from tests.support.paths import GOLDEN, ROOT

RECORD = GOLDEN / "step_versions.json"

NOISE = ("tasks/private/noise/discrete.py",)
COUNTING = (
    "tasks/private/voting/votes.py",
    "tasks/private/nearest/search.py",
    "tasks/private/nearest/exact.py",
    "tasks/private/voting/ballot.py",
    "tasks/private/voting/persons.py",
)
MEANING = {
    "generate": [
        "tasks/steps/generate.py",
        "tasks/text/cleaning.py",
        "tasks/text/cleaning_rules.py",
        "tasks/text/prompts.py",
        "tasks/text/keyphrase_prompts.py",
        "tasks/text/variation.py",
    ],
    "embed": ["tasks/steps/embed.py"],
    "soft_labels": ["tasks/steps/students/soft_labels.py", "tasks/density/soft_labels.py"],
    "reference": ["tasks/steps/embed.py"],
    "vote": [
        *COUNTING,
        *NOISE,
        "tasks/private/data/rows.py",
        "tasks/steps/selection.py",
    ],
    "federated_vote": [
        "tasks/federation/masked_round.py",
        "tasks/accounting/federated.py",
        "tasks/federation/messages.py",
        "tasks/steps/selection.py",
    ],
    "party_vote": [
        "tasks/private/federation/party_vote.py",
        "tasks/private/federation/masking.py",
        *COUNTING,
        *NOISE,
        "tasks/private/data/rows.py",
        "tasks/federation/masked_round.py",
        "tasks/accounting/federated.py",
    ],
    "vocabulary": [
        "tasks/keyphrases/phrases.py",
        "tasks/private/releases/keyphrases.py",
        "tasks/private/releases/sums.py",
        *NOISE,
        "tasks/private/data/rows.py",
    ],
    "guidance": [
        "tasks/density/kernels.py",
        "tasks/private/releases/density.py",
        "tasks/private/releases/sums.py",
        "tasks/private/voting/persons.py",
        *NOISE,
        "tasks/private/data/rows.py",
    ],
    "select_matching": [
        "tasks/density/kernels.py",
        "tasks/density/matching.py",
        "tasks/steps/density.py",
    ],
    "weigh_matching": [
        "tasks/density/kernels.py",
        "tasks/density/matching.py",
        "tasks/steps/density.py",
        "tasks/selection/weights.py",
    ],
    "choose_terms": ["tasks/steps/keyphrases.py"],
    "density": [
        "tasks/keyphrases/phrases.py",
        "tasks/keyphrases/kernels.py",
        "tasks/private/releases/keyphrases.py",
        "tasks/private/releases/sums.py",
        *NOISE,
        "tasks/private/data/rows.py",
    ],
    "draw_phrases": ["tasks/keyphrases/sequences.py", "tasks/keyphrases/kernels.py", "tasks/steps/keyphrases.py"],
    "phrases": ["tasks/steps/keyphrases.py", "tasks/keyphrases/phrases.py"],
    "tune": [
        "tasks/private/training/dp_train.py",
        "tasks/private/noise/entropy.py",
        "tasks/private/training/tuned_writer.py",
        "tasks/private/data/rows.py",
        "tasks/steps/dp_sgd.py",
    ],
    "labels": [
        "tasks/private/releases/label_counts.py",
        "tasks/private/releases/sums.py",
        *NOISE,
        "tasks/private/data/rows.py",
        "tasks/steps/label_counts.py",
        "tasks/core/release.py",
    ],
    "teach": ["tasks/private/releases/teachers.py", "tasks/private/data/rows.py", "tasks/steps/teachers.py"],
    "answers": [
        "tasks/private/releases/teachers.py",
        "tasks/private/releases/sums.py",
        *NOISE,
        "tasks/steps/teachers.py",
    ],
    "distill": ["tasks/steps/discriminator.py", "tasks/steps/teachers.py", "tasks/private/releases/teachers.py"],
    "select_texts": ["tasks/steps/discriminator.py", "tasks/text/class_balance.py"],
    "measure_discriminator": ["tasks/steps/discriminator.py", "tasks/steps/teachers.py"],
    "classify": [
        "tasks/private/training/tuned_classifier.py",
        "tasks/private/training/dp_train.py",
        "tasks/private/noise/entropy.py",
        "tasks/private/data/rows.py",
        "tasks/steps/students/dp_classifier.py",
    ],
    "test_classifier": ["tasks/steps/students/dp_classifier.py", "tasks/students/train.py"],
    "select": ["tasks/selection/examples.py"],
    "judge": ["tasks/steps/fusegen.py", "tasks/students/boosting.py"],
    "fuse": ["tasks/steps/fusegen.py", "tasks/selection/fusegen.py"],
    "weigh": ["tasks/selection/weights.py"],
    "survive": ["tasks/selection/survivors.py", "tasks/steps/evolution.py"],
    "average": ["tasks/steps/evolution.py"],
    "measure": [
        "tasks/metrics/metrics.py",
        "tasks/metrics/registry.py",
        "tasks/steps/students/evaluation.py",
        "tasks/students/heads.py",
    ],
    "baseline": [
        "tasks/steps/students/baseline.py",
        "tasks/students/train.py",
        "tasks/students/heads.py",
        "tasks/students/loop.py",
    ],
    "collect": ["tasks/steps/texts.py"],
    "plain_train": [
        "tasks/private/training/plain_train.py",
        "tasks/steps/students/plain_student.py",
        "tasks/private/data/rows.py",
        "tasks/students/train.py",
        "tasks/students/finetune.py",
        "tasks/students/transformer.py",
        "tasks/students/heads.py",
        "tasks/students/loop.py",
    ],
    "train": [
        "tasks/students/train.py",
        "tasks/students/coral.py",
        "tasks/students/finetune.py",
        "tasks/students/transformer.py",
        "tasks/students/heads.py",
        "tasks/students/loop.py",
    ],
}


@cache
def meaning(path: Path) -> str:
    """Return a file's code without docstrings, comments and imports: neither a new explanation nor a move counts."""
    return code(path.read_text(encoding="utf-8"))


def code(source: str) -> str:
    """Return the syntax tree of a module as text, without what `meaning` leaves out."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.asname or alias.name for node in imports for alias in node.names if _is_ours(node, alias)}
    return ast.dump(_Meaning(modules).visit(tree))


def _is_ours(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Say whether an import binds a module of this repository, whose name a move may change."""
    return (
        isinstance(node, ast.ImportFrom)
        and (ROOT / f"{node.module}.{alias.name}".replace(".", "/")).with_suffix(".py").exists()
    )


class _Meaning(ast.NodeTransformer):
    """Drops docstrings and imports; `module.name` becomes `name` where the module is one of this repository."""

    def __init__(self, modules: set[str]) -> None:
        self.modules = modules

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            documented = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            node.body = body[1 if documented else 0 :] or [ast.Pass()]
        return node

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            return ast.Name(node.attr, node.ctx)
        return self.generic_visit(node)


def present() -> dict[str, dict[str, object]]:
    """Return version and code hash of every step."""
    found: dict[str, dict[str, object]] = {}
    for step, files in MEANING.items():
        text = "\n".join(meaning(ROOT / name) for name in files)
        found[step] = {"version": VERSIONS[step], "code": hashlib.sha256(text.encode()).hexdigest()[:16]}
    return found


if __name__ == "__main__":
    RECORD.write_text(json.dumps(present(), indent=2) + "\n", encoding="utf-8")
