"""The files that make up the meaning of each kind of key. `python -m tests.support.step_versions` writes the record."""

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

import yaml

from tasks.steps.reuse import all_versions, declaring_modules
from tests.support.paths import GOLDEN, ROOT

RECORD = GOLDEN / "step_versions.json"

VOTING = "private/votes/count private/votes/nearest private/votes/ballot private/votes/persons"
GROUPS = {"COUNTING": VOTING, "NOISE": "private/noise/discrete"}
FURTHER = """
generate: writing/generate writing/cleaning writing/cleaning_rules writing/forms writing/several_texts writing/prompts
    writing/keyphrase_prompts writing/variation
embed: writing/embed
reference: writing/embed
public_corpus: guidance/density private/density/features
soft_labels: students/soft_labels
vote: COUNTING NOISE private/rows/rows
federated_vote: private/parties/rounds private/parties/promise private/votes/step
party_vote: private/parties/masked_vote COUNTING NOISE private/rows/rows private/parties/rounds private/parties/promise
vocabulary: writing/vocabulary private/phrases/count private/sums NOISE private/rows/rows
density: writing/vocabulary private/phrases/features private/phrases/count private/sums NOISE private/rows/rows
guidance: private/density/features private/density/count private/sums private/votes/persons NOISE private/rows/rows
select_matching: private/density/features guidance/matching
weigh_matching: private/density/features guidance/matching guidance/weights
draw_phrases: guidance/sequences private/phrases/features
phrases: writing/vocabulary
tune: private/training/dp_train private/noise/entropy private/training/tuned_writer private/rows/rows
classify: private/training/tuned_classifier private/training/dp_train private/noise/entropy private/rows/rows
test_classifier: students/train
labels: private/teachers/labels private/sums NOISE private/rows/rows private/draw_once
teach: private/teachers/answers private/rows/rows
answers: private/teachers/answers private/sums NOISE
distill: private/teachers/step private/teachers/answers
measure_discriminator: private/teachers/step
select_texts: writing/class_balance
select: guidance/examples
weigh: guidance/weights
fuse: guidance/fusegen_scores
survive: guidance/survivors
measure: metrics/metrics metrics/registry students/heads
baseline: students/train students/heads students/loop
plain_train: private/exposure/train private/rows/rows students/train students/finetune students/transformer
    students/heads students/loop
train: students/train students/coral students/finetune students/transformer students/heads students/loop
"""
"""Modules of tasks/, or groups of them, that make up the meaning of keys beside the module that declares them; YAML."""


def _files(kind: str, module: str) -> list[str]:
    words = str(yaml.safe_load(FURTHER).get(kind, "")).split()
    further = [name for word in words for name in GROUPS.get(word, word).split()]
    return [f"{module.replace('.', '/')}.py", *(f"tasks/{name}.py" for name in further)]


MEANING: dict[str, list[str]] = {
    kind: _files(kind, module) for kind, module in declaring_modules().items()
}


@cache
def meaning(path: Path) -> str:
    """Return a file's code without docstrings, comments and imports: neither a new explanation nor a move counts."""
    return code(path.read_text(encoding="utf-8"))


def code(source: str) -> str:
    """Return the syntax tree of a module as text, without what `meaning` leaves out."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        alias.asname or alias.name
        for node in imports
        for alias in node.names
        if _is_ours(node, alias)
    }
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
            documented = (
                body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            )
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
    versions = all_versions()
    result: dict[str, dict[str, object]] = {}
    for step, files in MEANING.items():
        text = "\n".join(meaning(ROOT / name) for name in files)
        result[step] = {
            "version": versions[step],
            "code": hashlib.sha256(text.encode()).hexdigest()[:16],
        }
    return result


if __name__ == "__main__":
    RECORD.write_text(json.dumps(present(), indent=2) + "\n", encoding="utf-8")
