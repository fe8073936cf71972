"""What each step's meaning is made of. `python -m tests.step_versions` writes the record anew after a decision."""

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

from tasks.reuse import VERSIONS

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "golden" / "step_versions.json"

NOISE = ("tasks/private/noise.py", "tasks/private/table_noise.py")
COUNTING = (
    "tasks/private/votes.py",
    "tasks/private/nearest.py",
    "tasks/private/blocks.py",
    "tasks/private/comparing.py",
    "tasks/private/compiled.py",
    "tasks/private/device.py",
    "tasks/private/proposals.py",
    "tasks/private/settling.py",
    "tasks/private/marks.py",
    "tasks/private/ballot.py",
    "tasks/private/persons.py",
)
MEANING = {
    "generate": [
        "tasks/generate.py",
        "tasks/clean.py",
        "tasks/clean_patterns.py",
        "tasks/prompts.py",
        "tasks/seeding.py",
        "tasks/variation.py",
    ],
    "embed": ["tasks/embed.py"],
    "reference": ["tasks/embed.py"],
    "vote": [
        *COUNTING,
        *NOISE,
        "tasks/private/rows.py",
        "tasks/guiding.py",
    ],
    "federated_vote": [
        "tasks/masked_sum.py",
        "tasks/masked_round.py",
        "tasks/shared_noise.py",
        "tasks/wire.py",
        "tasks/guiding.py",
        "tasks/round_plans.py",
    ],
    "party_vote": [
        "tasks/private/party_vote.py",
        "tasks/private/masking.py",
        *COUNTING,
        *NOISE,
        "tasks/private/rows.py",
        "tasks/masked_round.py",
        "tasks/shared_noise.py",
    ],
    "vocabulary": [
        "tasks/phrases.py",
        "tasks/private/keyphrases.py",
        "tasks/private/keyphrase_release.py",
        *NOISE,
        "tasks/private/rows.py",
    ],
    "guidance": [
        "tasks/kernels.py",
        "tasks/private/guidance.py",
        "tasks/private/persons.py",
        *NOISE,
        "tasks/private/rows.py",
    ],
    "select_matching": ["tasks/kernels.py", "tasks/hubs.py", "tasks/matching.py", "tasks/steering.py"],
    "weigh_matching": ["tasks/kernels.py", "tasks/matching.py", "tasks/steering.py", "tasks/weigh.py"],
    "basis": ["tasks/kernels.py"],
    "select_smoothed": ["tasks/smoothing.py", "tasks/hubs.py", "tasks/select.py", "tasks/kernels.py"],
    "select_spaced": ["tasks/hubs.py", "tasks/select.py", "tasks/kernels.py"],
    "weigh_smoothed": ["tasks/smoothing.py", "tasks/weigh.py"],
    "settle": ["tasks/kernels.py", "tasks/matching.py", "tasks/steering.py"],
    "appraise": ["tasks/appraisal.py", "tasks/kernels.py", "tasks/matching.py", "tasks/steering.py"],
    "choose_terms": ["tasks/keyphrasing.py"],
    "density": [
        "tasks/phrases.py",
        "tasks/densities.py",
        "tasks/private/keyphrases.py",
        "tasks/private/keyphrase_release.py",
        *NOISE,
        "tasks/private/rows.py",
    ],
    "draw_phrases": ["tasks/sequences.py", "tasks/densities.py", "tasks/keyphrasing.py"],
    "phrases": ["tasks/phrase_rows.py", "tasks/phrases.py"],
    "tune": [
        "tasks/private/dp_train.py",
        "tasks/private/entropy.py",
        "tasks/private/tuned_writer.py",
        "tasks/private/rows.py",
        "tasks/tuning.py",
    ],
    "plane": ["tasks/moments.py", "tasks/adapting.py"],
    "moments": [
        "tasks/moments.py",
        "tasks/private/moments.py",
        "tasks/private/persons.py",
        *NOISE,
        "tasks/private/rows.py",
    ],
    "labels": [
        "tasks/private/labels.py",
        "tasks/private/parts.py",
        *NOISE,
        "tasks/private/rows.py",
        "tasks/tutoring.py",
    ],
    "teach": ["tasks/private/teachers.py", "tasks/private/rows.py", "tasks/teaching.py"],
    "checks": ["tasks/private/teachers.py", "tasks/private/parts.py", *NOISE, "tasks/teaching.py"],
    "answers": ["tasks/private/teachers.py", "tasks/private/parts.py", *NOISE, "tasks/teaching.py"],
    "distill": ["tasks/distilling.py", "tasks/private/teachers.py"],
    "select_texts": ["tasks/distilling.py", "tasks/balance.py"],
    "classify": [
        "tasks/private/tuned_classifier.py",
        "tasks/private/dp_train.py",
        "tasks/private/entropy.py",
        "tasks/private/rows.py",
        "tasks/classifying.py",
    ],
    "test_classifier": ["tasks/classifying.py", "tasks/train.py"],
    "select": ["tasks/select.py"],
    "judge": ["tasks/fusion.py", "tasks/boosting.py"],
    "fuse": ["tasks/fusion.py", "tasks/fusing.py"],
    "weigh": ["tasks/weigh.py"],
    "survive": ["tasks/survive.py", "tasks/evolving.py"],
    "average": ["tasks/evolving.py"],
    "measure": ["tasks/measure.py", "tasks/judging.py", "tasks/heads.py"],
    "baseline": ["tasks/baseline.py", "tasks/train.py", "tasks/heads.py", "tasks/training.py"],
    "collect": ["tasks/writing.py"],
    "plain_train": [
        "tasks/private/plain_train.py",
        "tasks/private/rows.py",
        "tasks/train.py",
        "tasks/finetune.py",
        "tasks/network.py",
        "tasks/heads.py",
        "tasks/training.py",
    ],
    "train": [
        "tasks/train.py",
        "tasks/adaptation.py",
        "tasks/finetune.py",
        "tasks/network.py",
        "tasks/heads.py",
        "tasks/training.py",
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
